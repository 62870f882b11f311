"""Run every chapter and build the site.

Each notebook of ``_toc.yml`` runs through papermill with its own folder as working directory. Executed copies are kept
in ``_build/executed`` and reused as long as nothing that they depend on has changed. The site is built from the copies
and lies in ``_build/html``; the notebooks that it offers for download are those of ``_build/notebooks``, which read the
same everywhere (``tools/publish_notebooks.py``); each chapter has a deck of slides (``tools/slide_decks.py``).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import nbformat
import yaml
from addresses import read_addresses
from book_files.offer import offer
from browser_demo import demonstrations, fill_demos, write_demo
from contents import chapters
from deck_pages import write_pages
from errata import write_errata
from notebook_page import make_page
from plans import write_plans
from publish_notebooks import publish
from reference_pages import write_reference
from run_notebook import Run, execute
from slide_decks import for_site, write_decks

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
STATIC = ["_config.yml", "_toc.yml", "index.md", "references.md", "references.bib", "site"]


def run_chapters(profile: str | None, jobs: int) -> list[Run]:
    """Execute every chapter, or take its cached copy, some at a time, with a line of progress for each that ends.

    The cores are divided among the chapters that run, unless ``OMP_NUM_THREADS`` says how many each may use.
    """
    parameters = yaml.safe_load((ROOT / "profiles" / f"{profile}.yaml").read_text()) if profile else {}
    paths = chapters(ROOT)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        waiting = {
            pool.submit(execute, path, ROOT, BUILD / "executed", (parameters or {}).get(path.stem, {})): path
            for path in paths
        }
        for number, one in enumerate(as_completed(waiting), start=1):
            name = waiting[one].with_suffix("").relative_to("chapters")
            print(f"[{number}/{len(paths)}] {name} {one.result().summary()}", flush=True)
    found = {path: one.result() for one, path in waiting.items()}
    return [found[path] for path in paths]


def build_site(runs: list[Run]) -> int:
    """Lay out the executed copies beside the other pages and run Jupyter Book on them; return its status."""
    source = BUILD / "source"
    _lay_out(source, runs)
    complete = not any(run.error for run in runs)
    if complete:
        publish(ROOT, BUILD / "executed", BUILD / "notebooks")
        shutil.copytree(BUILD / "notebooks" / "zips", source / "site" / "extra" / "notebooks")
        addresses = for_site(read_addresses(ROOT))
        write_decks(ROOT, BUILD / "executed", source / "site" / "extra" / "slides", addresses)
    log = BUILD / "jupyter-book.log"
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    command = [str(jupyter_book), "build", "-W", "--keep-going", "--all", str(source)]
    with log.open("w") as stream:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "site" / "sphinx")}
        status = subprocess.run(
            command, stdout=stream, stderr=subprocess.STDOUT, check=False, env=environment
        ).returncode
    if status:
        lines = log.read_text().splitlines()
        print("\n".join(line for line in lines if "WARNING" in line or "ERROR" in line) or "\n".join(lines[-15:]))
        print(f"the site could not be built without warnings: see {log.relative_to(ROOT)}")
        return status
    shutil.rmtree(BUILD / "html", ignore_errors=True)
    shutil.copytree(source / "_build" / "html", BUILD / "html")
    if complete:
        for run in runs:  # what the button for downloads gives
            shutil.copy2(BUILD / "notebooks" / run.path, BUILD / "html" / "_sources" / run.path)
    (BUILD / "html" / ".nojekyll").touch()  # without it GitHub leaves out _static where a branch is the site
    return 0


def _lay_out(source: Path, runs: list[Run]) -> None:
    """Write every page, and what pages need, into the folder ``source``."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for name in STATIC:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name)
        else:
            shutil.copy2(ROOT / name, source / name)
    for page in sorted((ROOT / "chapters" / "start").glob("*.md")):
        (source / page.relative_to(ROOT).parent).mkdir(parents=True, exist_ok=True)
        shutil.copy2(page, source / page.relative_to(ROOT))
    write_pages(source)
    write_plans(source)
    write_errata(source)
    write_reference(source)
    write_demo(ROOT, source / "site" / "extra", BUILD / "models")
    demos = demonstrations(source / "site" / "extra" / "browser" / "index.html")
    index = source / "index.md"
    front = offer(index.read_text(encoding="utf-8"), BUILD / "files", source / "site" / "extra")
    index.write_text(fill_demos(front, demos, ""), encoding="utf-8")
    for run in runs:
        (source / run.path).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(make_page(run.executed, run.path, ROOT, demos), source / run.path)


def main() -> int:
    """Build everything; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", choices=["cpu", "full"], help="longer tiers; the smoke tier is the default")
    parser.add_argument("--jobs", type=int, help="chapters at a time; by default 2, and 1 in the longer tiers")
    arguments = parser.parse_args()
    runs = run_chapters(arguments.profile, arguments.jobs or (1 if arguments.profile else min(2, os.cpu_count() or 1)))
    status = build_site(runs)
    failed = [run for run in runs if run.error]
    for run in failed:
        print(f"FAILED {run.path}: {run.error}")
    if status or failed:
        return 1
    print(f"open {(BUILD / 'html' / 'index.html').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
