"""How the turns of Lighthouse are put together, and how files are sent to it."""

from __future__ import annotations

import gzip
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from benchmarks.site.lighthouse import below, look, served, summary


def report(performance: float, seo: float = 1.0, blocked: float = 10.0) -> dict[str, Any]:
    numbers = ("first-contentful-paint", "largest-contentful-paint", "cumulative-layout-shift", "total-byte-weight")
    audits: dict[str, Any] = {name: {"score": 1, "numericValue": 2000.0} for name in numbers}
    audits["total-blocking-time"] = {"score": 1, "numericValue": blocked}
    audits["meta-description"] = {"score": int(seo == 1)}
    audits["advice"] = {"score": 0}
    references = [{"id": "meta-description", "weight": 1}, {"id": "advice", "weight": 0}]
    categories: dict[str, Any] = {
        name: {"score": 1.0, "auditRefs": []} for name in ("accessibility", "best-practices", "performance")
    }
    categories["performance"]["score"] = performance
    categories["seo"] = {"score": seo, "auditRefs": references}
    return {"categories": categories, "audits": audits}


def test_the_best_speed_and_the_worst_of_the_other_marks_count() -> None:
    found = summary([report(0.8), report(0.93, blocked=5.0), report(0.9, seo=0.92)])
    assert found["marks"] == {"performance": 93, "accessibility": 100, "best-practices": 100, "seo": 92}
    assert found["turns"] == [80, 93, 90]
    assert found["times"]["blocked"] == 5.0
    assert found["faults"] == ["meta-description"]
    assert below({"a.html": found}) == ["a.html: seo 92 of 100 meta-description"]
    assert below({"a.html": summary([report(0.93)])}) == []
    assert below({"a.html": summary([report(0.89)])}) == ["a.html: performance 89 of 90"]


def test_files_are_sent_packed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>text</p>" * 100)
    (tmp_path / "a.png").write_bytes(b"picture")
    with served(tmp_path) as address:
        with urllib.request.urlopen(f"{address}/a.html") as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(answer.read()) == (tmp_path / "a.html").read_bytes()
        with urllib.request.urlopen(f"{address}/a.png") as answer:
            assert answer.headers["Content-Encoding"] is None
            assert answer.read() == b"picture"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}/b.html")


def test_a_turn_is_what_the_program_writes(tmp_path: Path) -> None:
    program = tmp_path / "lighthouse"
    program.write_text(
        '#!/bin/sh\nfor word in "$@"; do case $word in --output-path=*) out=${word#*=};; esac; done\n'
        'echo "{\\"asked\\": \\"$1\\", \\"browser\\": \\"$CHROME_PATH\\"}" > "$out"\n'
    )
    program.chmod(0o755)
    assert look("http://127.0.0.1/a", [str(program)], "/usr/bin/x") == {
        "asked": "http://127.0.0.1/a", "browser": "/usr/bin/x",
    }  # fmt: skip
