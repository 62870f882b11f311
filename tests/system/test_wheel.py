"""The installed package, far from any checkout: it brings the samples, the checkpoints and the stored results."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import d2lbert
from d2lbert.zoo.table import entries

PARTS = ("d2lbert", "data", "results", "pyproject.toml", "setup.py", "README.md", "LICENSE", "LICENSE-TEXT")
PROGRAM = """
from pathlib import Path
import d2lbert, warnings, d2lbert.zoo
from d2lbert import data, notebook
warnings.simplefilter("ignore")
print(Path(d2lbert.__file__).parent.parent == Path.cwd() / "installed")
print(notebook.results("finetuning/mrpc")["metrics"]["f1"]["n"])
print(len(data.load("sst2", "dev")), d2lbert.zoo.locate("d2lbert-tiny").is_dir())
print(d2lbert.get_model("minilm", "sst2")[0].labels)
try:
    d2lbert.get_model("minilm", "sick")
except d2lbert.UserError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def installed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the unpacked wheel and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "source").mkdir()
    for name in PARTS:  # a copy, since building writes beside setup.py
        copy = shutil.copytree if (root / name).is_dir() else shutil.copy
        copy(root / name, folder / "source" / name)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q"]
    subprocess.run([*build, "-w", str(folder), str(folder / "source")], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "elsewhere" / "installed")
    return folder / "elsewhere"


def test_the_wheel_has_the_version_of_the_package(installed: Path) -> None:
    (about,) = (installed / "installed").glob("*.dist-info")
    assert about.name == f"d2lbert-{d2lbert.__version__}.dist-info"


def test_the_page_of_the_package_index_leads_to_the_repository(installed: Path, root: Path) -> None:
    (about,) = (installed / "installed").glob("*.dist-info/METADATA")
    described = email.message_from_string(about.read_text(encoding="utf-8"))
    text = described.get_payload()
    assert isinstance(text, str)
    assert described["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 50
    assert not [link for link in links if not link.startswith("https://")]
    inside = [link.split("/blob/main/")[1] for link in links if "/d2lbert/blob/main/" in link]
    assert not [path for path in inside if not (root / path).exists()]
    assert any(line.startswith("Source, https://") for line in described.get_all("Project-URL", []))


def test_the_wheel_runs_without_a_checkout(installed: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("D2LBERT_")}
    environment |= {"PYTHONPATH": str(installed / "installed"), "D2LBERT_OFFLINE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, cwd=installed
    )
    *lines, refused = run.stdout.splitlines()
    assert lines == ["True", "3", "80 True", "('negative', 'positive')"], run.stderr
    assert refused.startswith("minilm-sick is not in the installed package and cannot be downloaded: D2LBERT_OFFLINE=1")


def test_the_wheel_brings_the_javascript_of_the_browser(installed: Path) -> None:
    modules = installed / "installed" / "d2lbert" / "deploy" / "browser" / "js"
    names = ["model.js", "tasks.js", "unicode.js", "wordpiece.js"]
    assert sorted(path.name for path in modules.iterdir()) == names


def test_what_is_downloaded_is_in_no_archive(installed: Path, root: Path) -> None:
    kept = [entry.folder for entry in entries() if entry.checkout_only]
    bundled = installed / "installed" / "d2lbert" / "data" / "_bundled"
    assert len(kept) == 5
    assert not [folder for folder in kept if (bundled / folder).exists()]
    assert (bundled / "checkpoints" / "minilm-sst2").is_dir()
    pruned = re.findall(r"^prune data/(.+)$", (root / "MANIFEST.in").read_text(), re.MULTILINE)
    assert sorted(pruned) == sorted(kept)


def test_results_are_those_of_the_checkout(installed: Path, root: Path) -> None:
    bundled = installed / "installed" / "d2lbert" / "data" / "_bundled" / "results"
    names = sorted(path.relative_to(bundled) for path in bundled.rglob("*.json"))
    there = sorted(path.relative_to(root / "results") for path in (root / "results").rglob("*.json"))
    assert names == [name for name in there if name.parts[0] != "tests"]
    for name in names:
        assert json.loads((bundled / name).read_text()) == json.loads((root / "results" / name).read_text()), name


def test_the_wheel_is_small(installed: Path) -> None:
    (wheel,) = installed.parent.glob("*.whl")
    assert wheel.stat().st_size < 7e6
