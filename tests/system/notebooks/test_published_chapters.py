"""Published notebooks as readers meet them: shown by Jupyter's own tools in a browser, and run from an empty folder."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbclient
import nbformat
import pytest
from addresses import read_addresses
from browser import inspect
from chapter_rules import tags
from citations import Bibliography
from headless import served
from nbconvert import HTMLExporter
from portable import portable
from publish_notebooks import student_path
from run_notebook import execute
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait
from student import student_copy

ROOT = Path(__file__).resolve().parents[3]
# Two that are soon run: one with many numbers, tables and citations, one with figures, code and a link to the site.
CHAPTERS = [Path("chapters/finetuning/glue.ipynb"), Path("chapters/deployment/browser.ipynb")]
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><link rel="icon" href="data:,">
<script>
window.MathJax = {{tex: {{inlineMath: [["$", "$"], ["\\\\(", "\\\\)"]]}},
  loader: {{load: ["input/tex", "output/chtml"]}}}};
</script>
<script src="startup.js"></script></head><body><article>{}</article></body></html>"""
_RAW = re.compile(r"\{[a-z:]+\}`|\{cite|\{glue|^:::|</?details>|\]\(", flags=re.MULTILINE)
_PROSE = """
const shown = [...document.querySelectorAll(arguments[0])].map(node => node.cloneNode(true));
for (const node of shown) node.querySelectorAll('pre, code, script, style').forEach(part => part.remove());
return shown.map(node => node.textContent).join('\\n');
"""
_RENDERED = """
const shown = [...document.querySelectorAll('.jp-MarkdownCell.jp-mod-rendered .jp-MarkdownOutput')];
return shown.filter(node => node.textContent.trim()).length;
"""
_LAB_SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells that are out of sight are in the page, too
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two chapters as they are published, and their copies for students; runs are those of ``make book``."""
    made = tmp_path_factory.mktemp("published")
    addresses = read_addresses(ROOT)
    works = Bibliography(ROOT / "references.bib", addresses.page(Path("references.md")))
    for path in CHAPTERS:
        run = execute(path, ROOT, ROOT / "_build" / "executed", {})
        assert not run.error
        notebook = portable(nbformat.read(run.executed, as_version=4), path, addresses, works)
        for target, version in ((path, notebook), (student_path(path), student_copy(notebook))):
            (made / target).parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(version, made / target)
    return made


VERSIONS = [*CHAPTERS, *map(student_path, CHAPTERS)]


@pytest.mark.browser
@pytest.mark.parametrize("path", VERSIONS, ids=str)
def test_nbconvert_shows_no_markup(driver: webdriver.Chrome, folder: Path, tmp_path: Path, path: Path) -> None:
    notebook = nbformat.read(folder / path, as_version=4)
    nbformat.validate(notebook)
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    (tmp_path / "page.html").write_text(_PAGE.format(body), encoding="utf-8")
    shutil.copytree(ROOT / "site" / "extra" / "mathjax", tmp_path, dirs_exist_ok=True)
    with served(tmp_path) as address:
        problems = inspect(driver, f"{address}/page.html")
        prose = driver.execute_script(_PROSE, "article")
    # The template has no style of its own, so tables may be wider than a phone.
    assert not [problem for problem in problems if "px wide" not in problem]
    assert "How this page was run" in prose
    assert not _RAW.findall(prose)
    for target in re.findall(r'<a [^>]*href="([^"]*)"', body):
        assert target.startswith(("https://", "#")), target


@contextlib.contextmanager
def jupyterlab(folder: Path, home: Path) -> Iterator[str]:
    """Run JupyterLab on a folder; yield its address."""
    for name, values in _LAB_SETTINGS.items():
        settings = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps(values))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"]
    command += ["--IdentityProvider.token=", f"--ServerApp.root_dir={folder}", "--ServerApp.port_retries=0"]
    command += [f"--LabApp.user_settings_dir={home / 'settings'}", f"--LabApp.workspaces_dir={home / 'workspaces'}"]
    folders = {name: str(home / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            command, env=os.environ | folders, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(f"{address}/api", server, home / "log")
            yield address
        finally:
            os.killpg(server.pid, signal.SIGKILL)  # the kernel, too; nothing of it is needed any more
            server.wait()


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(240):
        assert server.poll() is None, log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.5)
    pytest.fail(f"JupyterLab did not answer: {log.read_text()}")


@pytest.mark.browser
def test_jupyterlab_shows_no_markup(driver: webdriver.Chrome, folder: Path, tmp_path: Path) -> None:
    path = CHAPTERS[0]
    written = [cell for cell in nbformat.read(folder / path, as_version=4).cells if cell.cell_type == "markdown"]
    with jupyterlab(folder, tmp_path) as address:
        driver.get(f"{address}/doc/tree/{path.as_posix()}?reset")
        WebDriverWait(driver, 240).until(lambda page: page.execute_script(_RENDERED) == len(written))
        prose = driver.execute_script(_PROSE, ".jp-MarkdownOutput")
        driver.get("about:blank")  # so that it does not ask whether to leave
    assert "How this page was run" in prose
    assert "Exercise 1" in prose
    assert not _RAW.findall(prose)


def run_alone(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> nbformat.NotebookNode:
    """Run a notebook in an empty folder, far from the checkout's files, and return it."""
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    monkeypatch.delenv("D2LBERT_DATA", raising=False)
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", cwd=str(folder)).execute()
    return notebook


def errors(notebook: nbformat.NotebookNode) -> list[tuple[bool, str]]:
    """Whether the cell is a check, and the name of its error, for each cell that ended in one."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [
        ("check" in tags(cell), output.ename)
        for cell in cells
        for output in cell.outputs
        if output.output_type == "error"
    ]


@pytest.mark.parametrize("path", CHAPTERS, ids=str)
def test_a_chapter_runs_from_an_empty_folder(
    folder: Path, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert errors(run_alone(folder / path, tmp_path, monkeypatch)) == []


@pytest.mark.parametrize("path", CHAPTERS, ids=str)
def test_a_students_copy_runs_and_every_check_waits_for_a_solution(
    folder: Path, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_alone(folder / student_path(path), tmp_path, monkeypatch)
    checks = [cell for cell in run.cells if cell.cell_type == "code" and "check" in tags(cell)]
    assert checks
    assert errors(run) == [(True, "NotImplementedError")] * len(checks)
