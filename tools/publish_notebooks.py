"""Write the chapters as notebooks that read the same everywhere, from the copies that ``make book`` has run.

    python tools/publish_notebooks.py

``_build/notebooks`` then holds ``chapters/<part>/<slug>.ipynb`` (text, results, sources),
``student/<part>/<slug>.ipynb`` (no solutions, no outputs), a ``README.md`` that leads to both, what Binder needs, and
``zips``: one for each part and one of all. Results stay in the copies of the chapters: who reads them on GitHub sees
what the text is about.
"""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from addresses import Addresses, read_addresses
from citations import Bibliography
from contents import chapters, place, title
from portable import portable
from student import student_copy

from d2lbert.errors import UserError
from d2lbert.storage.files import write_text

ALL = "d2lbert-notebooks"
_BAND = ":::{admonition} How this page was run"
_REQUIREMENTS = ("lock.txt", "mxnet.txt", "weights.txt")


def publish(root: Path, executed: Path, folder: Path) -> None:
    """Write the notebooks of the book at ``root``, whose executed copies lie in ``executed``, into a new ``folder``.

    An older ``folder`` is replaced when everything is written.

    Raises:
        UserError: a chapter has no executed copy or has changed since, or its text cannot be resolved.
    """
    addresses = read_addresses(root)
    works = Bibliography(root / "references.bib", addresses.page(Path("references.md")))
    check_copies(root, executed, chapters(root))
    made = folder.with_name(f"{folder.name}-new")
    shutil.rmtree(made, ignore_errors=True)
    for path in chapters(root):
        notebook = portable(nbformat.read(executed / path, as_version=4), path, addresses, works)
        _write(notebook, made / path)
        _write(student_copy(notebook), made / student_path(path))
    write_text(made / "README.md", _index(root, addresses))
    _write_binder(root, made, addresses)
    _write_zips(root, made)
    shutil.rmtree(folder, ignore_errors=True)
    made.rename(folder)


def student_path(path: Path) -> Path:
    """Return where the students' copy of a chapter lies: ``student/bert/bert.ipynb``."""
    return Path("student", *path.parts[1:])


def zip_name(part: str) -> str:
    """Return the name of the zip of a part, which is given by its caption, without ending."""
    return f"{ALL}-{re.sub(r'[^a-z0-9]+', '-', part.lower()).strip('-')}"


def check_copies(root: Path, executed: Path, paths: list[Path]) -> None:
    """Refuse where one of the chapters was not run, or is not as it was then.

    Raises:
        UserError: the message names the chapters.
    """
    missing = [path.stem for path in paths if not (executed / path).is_file()]
    if missing:
        raise UserError(f"not run yet: {', '.join(missing)}: make book first")
    changed = [path.stem for path in paths if _sources(root / path) != _sources(executed / path)]
    if changed:
        raise UserError(f"changed since their last run, or failed in it: {', '.join(changed)}: make book first")


def _sources(path: Path) -> list[str]:
    cells = nbformat.read(path, as_version=4).cells
    return [cell.source for cell in cells if not cell.source.startswith(_BAND)]


def _write(notebook: nbformat.NotebookNode, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def _parts(root: Path) -> dict[str, list[Path]]:
    """Return the chapters of each part, by its caption."""
    parts: dict[str, list[Path]] = {}
    for path in chapters(root):
        parts.setdefault(place(root, path).part, []).append(path)
    return parts


def _index(root: Path, addresses: Addresses) -> str:
    lines = [
        "# The notebooks of d2lbert",
        "",
        f"Every chapter of [the book]({addresses.site}), twice: with its text and results, and a copy for students, in "
        "which the exercises have no solutions. They are made from [the repository]"
        f"({addresses.repository}) by `make colab`; changes belong there.",
        "",
        "A notebook needs nothing but itself. Its first cell of code installs the package on Colab, Kaggle and "
        "SageMaker, and says what to do on a machine of your own. Without a GPU, install PyTorch's CPU build first: "
        "it is smaller by gigabytes.",
    ]
    for part, paths in _parts(root).items():
        zipped = f"{addresses.site}notebooks/{zip_name(part)}.zip"
        lines += ["", f"## {part}", "", f"All of this part: [zip]({zipped}).", ""]
        lines += ["| Chapter | Open in | For students | Open in |", "|---|---|---|---|"]
        lines += [_row(title(root / path), path, addresses) for path in paths]
    return "\n".join([*lines, "", f"Everything: [zip]({addresses.site}notebooks/{ALL}.zip).", ""])


def _row(name: str, path: Path, addresses: Addresses) -> str:
    student = student_path(path)
    return (
        f"| [{name}]({path.as_posix()}) | {_places(path, addresses)} "
        f"| [copy]({student.as_posix()}) | {_places(student, addresses)} |"
    )


def _places(path: Path, addresses: Addresses) -> str:
    return (
        f"[Colab]({addresses.on_colab(path)}), [Kaggle]({addresses.on_kaggle(path)}), "
        f"[Studio Lab]({addresses.on_studio_lab(path)})"
    )


def _write_binder(root: Path, made: Path, addresses: Addresses) -> None:
    """Copy what Binder builds an environment from; the package itself comes from the repository."""
    (made / "requirements").mkdir()
    (made / "binder").mkdir()
    for name in _REQUIREMENTS:
        write_text(made / "requirements" / name, (root / "requirements" / name).read_text(encoding="utf-8"))
    environment = (root / "binder" / "environment.yml").read_text(encoding="utf-8")
    write_text(made / "binder" / "environment.yml", environment)
    steps = (root / "binder" / "postBuild").read_text(encoding="utf-8")
    if " -e ." not in steps:
        raise UserError("binder/postBuild does not install the checkout by '-e .': teach tools/publish_notebooks.py")
    script = made / "binder" / "postBuild"
    write_text(script, steps.replace(" -e .", f" git+{addresses.repository}"))
    script.chmod(0o755)


def _write_zips(root: Path, made: Path) -> None:
    parts = _parts(root)
    for part, paths in parts.items():
        _zip(made, zip_name(part), [file for path in paths for file in (path, student_path(path))])
    everything = [path.relative_to(made) for path in sorted(made.rglob("*.ipynb"))]
    _zip(made, ALL, [Path("README.md"), *everything])


def _zip(made: Path, name: str, files: list[Path]) -> None:
    """Pack files, which are given relative to ``made``; the same files make the same bytes."""
    target = made / "zips" / f"{name}.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            entry = zipfile.ZipInfo(f"{name}/{file.as_posix()}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, (made / file).read_bytes())


def sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and the bytes of each zip."""
    for path in sorted((folder / "zips").glob("*.zip")):
        yield path.name, path.stat().st_size


def main() -> int:
    """Write the notebooks of this checkout; return the exit status."""
    root = Path(__file__).resolve().parent.parent
    folder = root / "_build" / "notebooks"
    try:
        publish(root, root / "_build" / "executed", folder)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    for name, size in sizes(folder):
        print(f"{size / 1e6:6.1f} MB  {name}")
    print(f"wrote {folder.relative_to(root)}; make notebooks-branch commits it to the branch that the buttons open")
    return 0


if __name__ == "__main__":
    sys.exit(main())
