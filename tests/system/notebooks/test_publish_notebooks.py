"""The folder of published notebooks: what lies in it, where its index leads, and when nothing is published."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

import nbformat
import pytest
from publish_notebooks import ALL, publish, student_path, zip_name

from d2lbert import UserError

FILES = ["chapters/words/pieces.ipynb", "chapters/attention/soft.ipynb"]
STUDENT = ["student/words/pieces.ipynb", "student/attention/soft.ipynb"]


@pytest.fixture
def folder(book: Path) -> Path:
    """The published notebooks of the small book."""
    made = book / "_build" / "notebooks"
    publish(book, book / "_build" / "executed", made)
    return made


def text_of(path: Path) -> str:
    return "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)


def test_what_lies_in_the_folder(folder: Path) -> None:
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    zips = {f"zips/{ALL}.zip", f"zips/{ALL}-first-words.zip", f"zips/{ALL}-attention-more.zip"}
    requirements = {f"requirements/{name}.txt" for name in ("lock", "mxnet", "weights")}
    binder = {"binder/environment.yml", "binder/postBuild"}
    assert found == {*FILES, *STUDENT, "README.md", *zips, *requirements, *binder}
    assert not list(folder.parent.glob("notebooks-*")), "nothing half-written is left"


def test_chapters_keep_results_and_students_get_none(folder: Path) -> None:
    assert "A score of 93.5 ([Devlin et al., 2019](" in text_of(folder / FILES[1])
    assert "A score of 93.5" in text_of(folder / STUDENT[1])
    assert "fsum([x]" in text_of(folder / FILES[1])
    assert "fsum([x]" not in text_of(folder / STUDENT[1])
    results = [nbformat.read(folder / name, as_version=4).cells[-1].outputs for name in (FILES[0], STUDENT[0])]
    assert [len(outputs) for outputs in results] == [1, 0]


def test_the_index_leads_to_all_of_it(folder: Path) -> None:
    index = (folder / "README.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", index)
    inside = [link for link in links if "://" not in link]
    assert sorted(inside) == sorted([*FILES, *STUDENT])
    assert all((folder / link).is_file() for link in inside)
    for name in (*FILES, *STUDENT):
        assert sum(link.endswith(f"/blob/notebooks/{name}") for link in links) == 3, "Colab, Kaggle, Studio Lab"
    zips = [link.rpartition("/")[2] for link in links if link.endswith(".zip")]
    assert sorted(zips) == sorted(path.name for path in (folder / "zips").iterdir())
    assert index.index("## First words") < index.index("## Attention & more")


def test_zips_hold_what_they_should_and_are_the_same_each_time(book: Path, folder: Path) -> None:
    part = zip_name("Attention & more")
    with zipfile.ZipFile(folder / "zips" / f"{part}.zip") as archive:
        assert archive.namelist() == [f"{part}/{FILES[1]}", f"{part}/{STUDENT[1]}"]
        assert archive.read(f"{part}/{STUDENT[1]}") == (folder / STUDENT[1]).read_bytes()
    with zipfile.ZipFile(folder / "zips" / f"{ALL}.zip") as archive:
        assert archive.testzip() is None
        assert set(archive.namelist()) == {f"{ALL}/{name}" for name in ("README.md", *FILES, *STUDENT)}
    before = {path.name: path.read_bytes() for path in (folder / "zips").iterdir()}
    publish(book, book / "_build" / "executed", folder)
    assert before == {path.name: path.read_bytes() for path in (folder / "zips").iterdir()}


def test_binder_installs_the_package_from_the_repository(folder: Path) -> None:
    script = folder / "binder" / "postBuild"
    assert " git+https://" in script.read_text()
    assert " -e ." not in script.read_text()
    assert script.stat().st_mode & 0o111
    for name in re.findall(r"-r (\S+)", script.read_text()):
        assert (folder / name).is_file()


def test_a_chapter_that_was_not_run_is_named_and_the_old_folder_stays(book: Path, folder: Path) -> None:
    (book / "_build" / "executed" / FILES[1]).unlink()
    with pytest.raises(UserError, match=r"^not run yet: soft: make book first$"):
        publish(book, book / "_build" / "executed", folder)
    assert (folder / FILES[1]).is_file()


@pytest.mark.parametrize("where", ["source", "copy"])
def test_a_chapter_that_is_not_as_it_was_run_is_named(book: Path, where: str) -> None:
    """It was changed, or the run ended in an error, which stands in a cell of its own."""
    path = (book if where == "source" else book / "_build" / "executed") / FILES[0]
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_markdown_cell("new"))
    nbformat.write(notebook, path)
    with pytest.raises(UserError, match=r"^changed since their last run, or failed in it: pieces: make book first$"):
        publish(book, book / "_build" / "executed", book / "_build" / "notebooks")
    assert not (book / "_build" / "notebooks").exists()


def test_an_unknown_role_leaves_the_old_folder(book: Path, folder: Path) -> None:
    for start in (book, book / "_build" / "executed"):
        notebook = nbformat.read(start / FILES[0], as_version=4)
        notebook.cells[-2].source += " {ref}`there`"
        nbformat.write(notebook, start / FILES[0])
    before = (folder / FILES[0]).read_bytes()
    with pytest.raises(UserError, match=r"^chapters/words/pieces.ipynb: the role \{ref\}"):
        publish(book, book / "_build" / "executed", folder)
    assert (folder / FILES[0]).read_bytes() == before


def test_a_removed_chapter_leaves_the_folder(book: Path, folder: Path) -> None:
    contents = (book / "_toc.yml").read_text()
    (book / "_toc.yml").write_text(contents[: contents.index("  - caption: Attention")])
    shutil.rmtree(book / "chapters" / "attention")
    publish(book, book / "_build" / "executed", folder)
    assert not (folder / FILES[1]).exists()
    assert (folder / FILES[0]).exists()


def test_student_path() -> None:
    assert student_path(Path("chapters/bert/bert.ipynb")) == Path("student/bert/bert.ipynb")
