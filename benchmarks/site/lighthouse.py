"""What Lighthouse says of the built site on a phone: speed, accessibility, good practice, what search engines find.

Lighthouse (npm) opens each page in Chromium a few times with an empty cache, and computes how long a phone with a slow
line would take. The files come packed from a server on this machine, as a host of pages sends them. Of the speeds the
best turn counts, since other programs only slow a turn down; of the other marks the worst. A page without a fault has
100 for each.

    make book && python -m benchmarks.site.lighthouse    # needs Chromium, and npx with Lighthouse or a network
"""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.command_line import command_line
from benchmarks.record import ROOT, Record

LIGHTHOUSE = "lighthouse@12.8.2"
SITE = ROOT / "_build" / "html"
# The front page, pages with many formulas, pictures, figures to play with and tables, and a page of the reference.
PAGES = (
    "index.html",
    "chapters/representations/tokenization.html",
    "chapters/attention/attention.html",
    "chapters/attention/self_attention.html",
    "chapters/seq2seq/seq2seq.html",
    "chapters/transformer/translation.html",
    "chapters/bert/bert.html",
    "chapters/pretraining/pretraining.html",
    "chapters/finetuning/classification.html",
    "chapters/finetuning/question_answering.html",
    "chapters/deployment/serving.html",
    "reference/torch_training.html",
)
MARKS = ("performance", "accessibility", "best-practices", "seo")
WANTED = {"performance": 90, "accessibility": 100, "best-practices": 100, "seo": 100}
# Audit -> what it is called in the result; milliseconds but for the shift, which has no unit.
TIMES = {
    "first-contentful-paint": "first paint",
    "largest-contentful-paint": "largest paint",
    "total-blocking-time": "blocked",
    "cumulative-layout-shift": "layout shift",
}
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = "--headless=new --no-sandbox --disable-background-networking --disable-component-update --disable-sync"
_PACKED = ("text/", "application/javascript", "application/json", "image/svg", "font/ttf")


class PackedFiles(http.server.SimpleHTTPRequestHandler):
    """Sends files, packed by gzip where that helps."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with a file."""
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        content, kind = path.read_bytes(), self.guess_type(str(path))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "max-age=600")
        if kind.startswith(_PACKED):
            content = gzip.compress(content, 6)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Keep the terminal for the results."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; give its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(PackedFiles, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def look(address: str, command: Sequence[str], browser: str) -> dict[str, Any]:
    """Return the report of one turn.

    Args:
        command: that starts Lighthouse.
        browser: the path of Chromium.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        call = [*command, address, "--quiet", "--output=json", f"--output-path={report}", f"--chrome-flags={_FLAGS}"]
        subprocess.run(call, check=True, env={**os.environ, "CHROME_PATH": browser}, timeout=300)
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return found


def summary(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the marks of a page from its turns, the times of the fastest, and what is at fault."""
    marks = [{mark: round(100 * one["categories"][mark]["score"]) for mark in MARKS} for one in reports]
    best = max(range(len(marks)), key=lambda turn: marks[turn]["performance"])
    audits = reports[best]["audits"]
    faults = {
        reference["id"]
        for report in reports
        for mark in MARKS[1:]
        for reference in report["categories"][mark]["auditRefs"]
        if reference["weight"] and report["audits"][reference["id"]]["score"] == 0
    }
    return {
        "marks": {
            **{mark: min(one[mark] for one in marks) for mark in MARKS},
            "performance": marks[best]["performance"],
        },
        "turns": [one["performance"] for one in marks],
        "times": {name: round(audits[audit]["numericValue"], 3) for audit, name in TIMES.items()},
        "kilobytes": round(audits["total-byte-weight"]["numericValue"] / 1000),
        "faults": sorted(faults),
    }


def below(pages: dict[str, dict[str, Any]]) -> list[str]:
    """Return what falls short of :data:`WANTED`, a line each."""
    return [
        f"{page}: {mark} {found['marks'][mark]} of {wanted} {' '.join(found['faults'])}".rstrip()
        for page, found in pages.items()
        for mark, wanted in WANTED.items()
        if found["marks"][mark] < wanted
    ]


def main() -> int:
    """Look at the pages and write ``results/site/lighthouse.json``; return 1 where one falls short."""
    parser = command_line(__doc__)
    parser.add_argument("--pages", nargs="+", default=list(PAGES), help="of the site; default a dozen of all kinds")
    parser.add_argument("--turns", type=int, default=3, help="at each page")
    parser.add_argument("--lighthouse", help="the program, where it is installed; default npx")
    arguments = parser.parse_args()
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise SystemExit("needs Chromium: install the package chromium")
    missing = [page for page in arguments.pages if not (SITE / page).is_file()]
    if missing:
        raise SystemExit(f"{SITE.name} has no {', '.join(missing)}: run make book first")
    command = [arguments.lighthouse] if arguments.lighthouse else ["npx", "--yes", LIGHTHOUSE]
    record = Record("site/lighthouse", ["sphinx", "sphinx-book-theme"])
    pages: dict[str, dict[str, Any]] = {}
    version = ""
    with served(SITE) as address:
        for page in arguments.pages:
            reports = [look(f"{address}/{page}", command, browser) for _ in range(arguments.turns)]
            version = reports[0]["lighthouseVersion"]
            pages[page] = summary(reports)
            print(page, *pages[page]["marks"].values(), f"{pages[page]['kilobytes']} KB", flush=True)
    record.write({"pages": pages}, lighthouse=version, turns=arguments.turns, wanted=WANTED)
    problems = below(pages)
    print("\n".join(problems) or "all pages have what is wanted")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
