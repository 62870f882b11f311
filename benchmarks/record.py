"""Write what a benchmark measured to ``results/<topic>/<run>.json``, with all that is needed to judge and repeat it."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import Watch, quiet
from d2lbert import data
from d2lbert.storage.files import write_text

ROOT = Path(__file__).resolve().parent.parent


class Record:
    """One run of a benchmark. Make it when the work begins; ``write`` when it is done.

    What samples gave never replaces what the real data gave: it goes to ``runs/on_samples/<name>.json``. What a part of
    the data gave replaces nothing either: it goes to ``runs/on_parts/<name>.json``.

    Args:
        name: ``topic/run``, the path of the result file without its ending.
        packages: whose versions matter.
        seeds: what the run was seeded with.
        path: where to write instead, such as for a run that only tries the script out.
        data_sets: the names of the data sets that are read.
        samples_do: whether samples are enough to run on.
        size: where only so many examples are read, to try the script out; None for all.

    Raises:
        SystemExit: the real data are needed, and not here.
    """

    def __init__(
        self,
        name: str,
        packages: Iterable[str],
        seeds: Sequence[int] = (),
        path: Path | None = None,
        data_sets: Iterable[str] = (),
        samples_do: bool = True,
        size: int | None = None,
    ) -> None:
        self.packages = list(packages)
        self.seeds = list(seeds)
        self.data_sets = {one: "sample" if data.is_sample(one) else "full" for one in data_sets}
        samples = [one for one, kind in self.data_sets.items() if kind == "sample"]
        if samples and not samples_do:
            raise SystemExit(f"samples are too small for this: set D2LBERT_DATA to a folder with {', '.join(samples)}")
        stored = ROOT / "results" / f"{name}.json"
        self.path = path or stored
        if size is not None and path is None:
            self.path = ROOT / "runs" / "on_parts" / f"{name}.json"
            print(f"only {size} examples are read: the result goes to {self.path.relative_to(ROOT)}")
        elif samples and path is None and _from_real_data(stored):
            self.path = ROOT / "runs" / "on_samples" / f"{name}.json"
            print(f"of {', '.join(samples)} only samples are here: the result goes to {self.path.relative_to(ROOT)}")
        self.commit = commit()  # now: whoever commits meanwhile changes nothing of what runs
        self.began = time.perf_counter()
        self.watch = Watch()

    def stamp(self) -> dict[str, Any]:
        """Return when, where and with which code and versions this runs."""
        return {
            "command": _command(),
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "commit": self.commit,
            "device": device(),
            "versions": {"python": platform.python_version()}
            | {package: importlib.metadata.version(package) for package in self.packages},
        }

    def beside(self) -> dict[str, Any]:
        """Return what others have taken of the processors since the beginning, and whether that was little."""
        shares = self.watch.shares()
        return {"taken_by": shares, "quiet": quiet(shares)}

    def write(self, metrics: dict[str, Any], **notes: Any) -> None:
        """Write the file, with notes such as the settings and the paper's figure."""
        content = {
            **self.stamp(),
            "seeds": self.seeds,
            "seconds": round(time.perf_counter() - self.began, 1),
            "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
            "data_sets": self.data_sets,
            **self.beside(),
            **notes,
            "metrics": metrics,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, json.dumps(content, indent=2) + "\n")
        print(f"wrote {self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path}")


def _from_real_data(path: Path) -> bool:
    if not path.is_file():
        return False
    return "sample" not in json.loads(path.read_text(encoding="utf-8")).get("data_sets", {}).values()


def kept(path: Path, settings: dict[str, Any], work: Callable[[], Any]) -> Any:
    """Return what an earlier call has kept in ``path``, or do the work and keep what it returns.

    Args:
        settings: what the outcome depends on, in terms of JSON; kept beside it.

    Raises:
        SystemExit: the file was kept under other settings, which would pass for these.
    """
    settings = json.loads(json.dumps(settings))  # what a file gives back: keys are strings, tuples are lists
    if path.is_file():
        content = json.loads(path.read_text(encoding="utf-8"))
        other = [name for name in settings if content.get("settings", {}).get(name) != settings[name]]
        if other:
            raise SystemExit(f"{path} was kept with another {', '.join(other)}: remove it, or choose other --runs")
        return content["found"]
    content = {"settings": settings, "found": work()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content) + "\n")
    return json.loads(path.read_text(encoding="utf-8"))["found"]


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return mean, standard deviation (n - 1), n and the values themselves."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.mean(values), "std": deviation, "n": len(values), "values": list(values)}


def device() -> dict[str, Any]:
    """Return what the run ran on."""
    import torch

    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.is_file() else None
    return {
        "processor": found[1].strip() if found else platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
    }


def _command() -> str:
    """Return the command line, of absolute paths only the names: they tell where one machine keeps its files."""
    script = Path(sys.argv[0]).resolve()
    called = [script.name]
    if script.is_relative_to(ROOT):
        called = ["-m", ".".join(script.relative_to(ROOT).with_suffix("").parts)]
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return " ".join(["python", *called, *words])


def commit() -> str:
    """Return the short hash of the commit that is checked out."""
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"
