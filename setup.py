"""Everything about the package stands in pyproject.toml, save what TOML cannot say: what else goes into the wheel, and
links of README.md that lead somewhere on the page of the package index, too.

The manifest, the samples and the stored results lie at the root of the checkout, beside the chapters. An installed
package has no checkout (on Colab, for instance), so the wheel carries them as ``d2lbert/data/_bundled``. Models that
not everybody may use for everything, or that would make it large (``checkout_only`` in ``data/zoo.toml``), stay in the
checkout, from whose repository the package downloads them; and so do results about the tests.
"""

import json
import re
import shutil
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


def compact_copy(source: str, target: str) -> None:
    """Copy a file of JSON without the white space between its parts."""
    content = json.loads(Path(source).read_text(encoding="utf-8"))
    Path(target).write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")


class BuildWithData(build_py):
    """The usual build of the Python files, then a copy of data/ and of what results/ say."""

    def run(self) -> None:
        super().run()
        # An editable install uses the checkout's own data/.
        if not self.editable_mode:
            root, bundled = Path(__file__).parent, Path(self.build_lib, "d2lbert", "data", "_bundled")
            table = tomllib.loads((root / "data" / "zoo.toml").read_text(encoding="utf-8"))
            stays = {root / "data" / model["folder"] for model in table["model"] if model.get("checkout_only")}

            def staying(folder: str, names: list[str]) -> list[str]:
                return [name for name in names if Path(folder, name) in stays]

            def about_the_tests(folder: str, names: list[str]) -> list[str]:
                return [name for name in names if Path(folder, name) == root / "results" / "tests"]

            shutil.copytree(root / "data", bundled, ignore=staying, dirs_exist_ok=True)
            shutil.copytree(
                root / "results", bundled / "results", False, about_the_tests, compact_copy, dirs_exist_ok=True
            )


def description(root: Path) -> str:
    """Return README.md with the links that are relative to the repository made absolute."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (root / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\((?![a-z]+:|#)", f"]({project['urls']['Source']}/blob/main/", text)


setup(
    cmdclass={"build_py": BuildWithData},
    long_description=description(Path(__file__).parent),
    long_description_content_type="text/markdown",
)
