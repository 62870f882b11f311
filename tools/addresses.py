"""Every address outside the checkout that a page or notebook leads to; each is made from what _config.yml says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

_PAGES = (".ipynb", ".md")


@dataclass(frozen=True)
class Addresses:
    """Where the book lies.

    Fields:
        repository: its address, without a slash at the end.
        branch: of the notebooks that the buttons of the site open.
        site: the address of the built book, with a slash at the end.
        colab: where Colab takes notebooks.
    """

    repository: str
    branch: str
    site: str
    colab: str

    def page(self, path: Path) -> str:
        """Return the page of a file of the book, which is given relative to the root."""
        return self.site + path.with_suffix(".html").as_posix()

    def resolve(self, target: str, page: Path) -> str:
        """Return the absolute address of a link that stands on the page ``page`` (relative to the root).

        Pages of the book are looked up on the site, and so is what the site alone has (``browser/index.html``);
        any other file in the repository.
        """
        if urlsplit(target).scheme:
            return target
        name, mark, anchor = target.partition("#")
        path = Path(os.path.normpath(page.parent / name)) if name else page
        if path.suffix in _PAGES:
            return self.page(path) + mark + anchor
        start = self.site if path.suffix == ".html" else f"{self.repository}/blob/main/"
        return start + path.as_posix() + mark + anchor

    def on_colab(self, path: Path) -> str:
        """Return the address that opens a notebook of the branch on Colab."""
        return f"{self.colab}/github/{self._in_branch(path)}"

    def on_kaggle(self, path: Path) -> str:
        """Return the address that opens a notebook of the branch on Kaggle."""
        return f"https://kaggle.com/kernels/welcome?src={self.on_github(path)}"

    def on_studio_lab(self, path: Path) -> str:
        """Return the address that opens a notebook of the branch in SageMaker Studio Lab."""
        return f"https://studiolab.sagemaker.aws/import/github/{self._in_branch(path)}"

    def on_github(self, path: Path) -> str:
        """Return the address of a file of the branch."""
        return f"{self.repository}/blob/{self.branch}/{path.as_posix()}"

    def commit(self, name: str) -> str:
        """Return the address of a commit."""
        return f"{self.repository}/commit/{name}"

    def _in_branch(self, path: Path) -> str:
        return f"{urlsplit(self.repository).path.strip('/')}/blob/{self.branch}/{path.as_posix()}"


def read_addresses(root: Path) -> Addresses:
    """Read the addresses from the ``_config.yml`` of a checkout."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    return Addresses(
        repository=config["repository"]["url"].rstrip("/"),
        branch=config["repository"]["branch"],
        site=config["html"]["baseurl"].rstrip("/") + "/",
        colab=config["launch_buttons"]["colab_url"].rstrip("/"),
    )
