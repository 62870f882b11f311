"""Everything about the package stands in pyproject.toml, save what TOML cannot say: data/ goes into the wheel.

The manifest and the samples lie at the root of the checkout, beside the chapters. An installed package has no checkout
(on Colab, for instance), so the wheel carries them as ``d2lbert/data/_bundled``.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithData(build_py):
    """The usual build of the Python files, then a copy of data/."""

    def run(self) -> None:
        super().run()
        # An editable install uses the checkout's own data/.
        if not self.editable_mode:
            source = Path(__file__).parent / "data"
            shutil.copytree(source, Path(self.build_lib, "d2lbert", "data", "_bundled"), dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithData})
