"""Everything about the package stands in pyproject.toml, save what TOML cannot say: what else goes into the wheel.

The manifest, the samples and the stored results lie at the root of the checkout, beside the chapters. An installed
package has no checkout (on Colab, for instance), so the wheel carries them as ``d2lbert/data/_bundled``.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithData(build_py):
    """The usual build of the Python files, then a copy of data/ and results/."""

    def run(self) -> None:
        super().run()
        # An editable install uses the checkout's own data/.
        if not self.editable_mode:
            root, bundled = Path(__file__).parent, Path(self.build_lib, "d2lbert", "data", "_bundled")
            shutil.copytree(root / "data", bundled, dirs_exist_ok=True)
            shutil.copytree(root / "results", bundled / "results", dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithData})
