"""Commit a built folder to a branch of this repository, without touching what is checked out.

    python tools/publish_branch.py [FOLDER [BRANCH]]

By default ``_build/notebooks`` becomes the branch that ``_config.yml`` names. The branch always has one commit, without
history: all that it holds can be made again, and outputs of old runs would make every clone larger. Its zips stay out,
the site has them. Nothing is pushed; the last line says how.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from addresses import read_addresses

from d2lbert.errors import UserError

_LEFT_OUT = "zips"


def publish_branch(repository: Path, folder: Path, branch: str) -> str:
    """Make ``folder`` the one commit of ``branch`` and return its name; a branch that holds the same stays as it is.

    Raises:
        UserError: the folder is not there, the branch is checked out, or Git refuses.
    """
    if not (folder / "README.md").is_file():
        raise UserError(f"no notebooks in {folder}: make colab first")
    git = _run(["git", "rev-parse", "--absolute-git-dir"], repository)
    if f"branch refs/heads/{branch}" in _git(git, repository, "worktree", "list", "--porcelain").splitlines():
        raise UserError(f"the branch {branch} is checked out: switch to another, its files would seem changed")
    with tempfile.TemporaryDirectory() as temporary:
        # An index of its own: what is staged in the checkout stays staged.
        index = {"GIT_INDEX_FILE": str(Path(temporary) / "index"), "GIT_WORK_TREE": str(folder.resolve())}
        _git(git, folder, "add", "--all", "--force", "--", ".", f":!{_LEFT_OUT}", **index)
        tree = _git(git, folder, "write-tree", **index)
    before = _git(git, repository, "for-each-ref", "--format=%(objectname) %(tree)", f"refs/heads/{branch}").split()
    if before[1:] == [tree]:
        return before[0]
    source = _git(git, repository, "rev-parse", "--short", "HEAD")
    commit = _git(git, repository, "commit-tree", tree, "-m", f"The notebooks of {source}")
    _git(git, repository, "update-ref", f"refs/heads/{branch}", commit)
    return commit


def _git(git: str, folder: Path, *arguments: str, **environment: str) -> str:
    return _run(["git", "--git-dir", git, *arguments], folder, environment)


def _run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run Git in a folder and return what it prints."""
    settings = os.environ | (environment or {})
    run = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    if run.returncode:
        said = run.stderr.strip().splitlines()
        raise UserError(f"{' '.join(command[:4])} failed: {said[-1] if said else run.returncode}")
    return run.stdout.strip()


def main() -> int:
    """Publish what the command line names; return the exit status."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=root / "_build" / "notebooks")
    parser.add_argument("branch", nargs="?", default=read_addresses(root).branch)
    arguments = parser.parse_args()
    try:
        commit = publish_branch(root, arguments.folder, arguments.branch)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{arguments.branch} is {commit[:10]}; to publish it: git push --force-with-lease origin {arguments.branch}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
