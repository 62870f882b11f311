"""The notebooks become one commit of a branch; the checkout, its index and other branches stay as they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from publish_branch import publish_branch

from d2lbert import UserError


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    run = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, one staged file, and notebooks in an ignored folder."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "config", "user.name", "A")
    git(root, "config", "user.email", "a@example.org")
    (root / ".gitignore").write_text("_build/\n*.ipynb\n")
    git(root, "add", ".gitignore")
    git(root, "commit", "--quiet", "-m", "first")
    (root / "staged.txt").write_text("x")
    git(root, "add", "staged.txt")
    built = root / "_build" / "notebooks"
    for name in ("README.md", "chapters/a/b.ipynb", "zips/all.zip"):
        (built / name).parent.mkdir(parents=True, exist_ok=True)
        (built / name).write_text(name)
    return root


def test_the_branch_holds_the_folder_without_zips(repository: Path) -> None:
    status = git(repository, "status", "--porcelain")
    commit = publish_branch(repository, repository / "_build" / "notebooks", "notebooks")
    assert git(repository, "rev-parse", "notebooks") == commit
    assert git(repository, "ls-tree", "-r", "--name-only", "notebooks").split() == ["README.md", "chapters/a/b.ipynb"]
    assert git(repository, "show", "notebooks:chapters/a/b.ipynb") == "chapters/a/b.ipynb"
    assert git(repository, "log", "-1", "--format=%s", "notebooks").startswith("The notebooks of ")
    assert git(repository, "status", "--porcelain") == status
    assert git(repository, "rev-parse", "--abbrev-ref", "HEAD") == "main"


def test_the_same_again_makes_no_commit_and_news_replace_the_old(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = repository / "_build" / "notebooks"
    first = publish_branch(repository, built, "notebooks")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-02-03T04:05:06Z")  # another commit would have another name
    assert publish_branch(repository, built, "notebooks") == first
    (built / "chapters" / "a" / "b.ipynb").write_text("new")
    second = publish_branch(repository, built, "notebooks")
    assert second != first
    assert git(repository, "rev-list", "--count", "notebooks") == "1", "no history"
    assert git(repository, "show", "notebooks:chapters/a/b.ipynb") == "new"


def test_it_can_be_pushed_and_cloned(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "origin")
    git(repository, "remote", "add", "origin", str(tmp_path / "origin"))
    publish_branch(repository, repository / "_build" / "notebooks", "notebooks")
    git(repository, "push", "--quiet", "--force-with-lease", "origin", "notebooks")
    git(tmp_path, "clone", "--quiet", "--branch", "notebooks", str(tmp_path / "origin"), "clone")
    assert (tmp_path / "clone" / "chapters" / "a" / "b.ipynb").read_text() == "chapters/a/b.ipynb"


def test_a_branch_that_is_checked_out_is_left_alone(repository: Path) -> None:
    before = git(repository, "rev-parse", "main")
    with pytest.raises(UserError, match="main is checked out"):
        publish_branch(repository, repository / "_build" / "notebooks", "main")
    assert git(repository, "rev-parse", "main") == before


def test_without_notebooks_it_says_what_to_do(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="make colab first"):
        publish_branch(repository, tmp_path / "nowhere", "notebooks")


def test_outside_a_repository_git_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "README.md").write_text("x")
    with pytest.raises(UserError, match=r"git rev-parse .*not a git repository"):
        publish_branch(tmp_path, tmp_path, "notebooks")
