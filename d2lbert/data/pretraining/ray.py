"""Prepare a corpus on Ray Data: its files are divided among the workers of a machine or of a Ray cluster.

The shards are those of :func:`d2lbert.data.pretraining.shards.prepare`, byte for byte: what a file becomes depends
on its text alone. ``RAY_ADDRESS`` names a running cluster; all of its machines must see the files and the folder.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from d2lbert.data.pretraining.shards import Preparation, TokenShards, begin, prepare_file, write_index
from d2lbert.errors import UserError
from d2lbert.text import WordPiece


def prepare_on_ray(
    files: Sequence[Path],
    out: str | Path,
    tokenizer: WordPiece,
    settings: Preparation | None = None,
    workers: int = 1,
    origin: dict[str, Any] | None = None,
) -> TokenShards:
    """Do what :func:`d2lbert.data.pretraining.shards.prepare` does, with one task of Ray Data per file.

    Args:
        files, out, tokenizer, settings, origin: those of ``prepare``.
        workers: the number of tasks that run at a time.

    Raises:
        UserError: Ray is not installed; or as in ``prepare``.
    """
    try:
        import ray
        import ray.data
    except ImportError:
        raise UserError("the engine ray needs the package ray: run pip install 'ray[data]'") from None
    folder, preparation = begin(out, tokenizer), settings or Preparation()

    def work(row: dict[str, Any]) -> dict[str, Any]:
        try:
            entries = prepare_file(row["number"], Path(row["file"]), folder.resolve(), tokenizer, preparation)
        except UserError as error:  # Ray would wrap it in errors of its own
            return {"number": row["number"], "entries": "", "error": str(error)}
        return {"number": row["number"], "entries": json.dumps(entries), "error": ""}

    rows = [{"number": number, "file": str(file.resolve())} for number, file in enumerate(files)]
    with running_ray(workers):
        ray.data.DataContext.get_current().enable_progress_bars = False
        tasks = ray.data.TaskPoolStrategy(size=workers)
        results = ray.data.from_items(rows, override_num_blocks=len(rows)).map(work, compute=tasks).take_all()
    results.sort(key=lambda row: int(row["number"]))
    for row in results:
        if row["error"]:
            raise UserError(row["error"])
    return write_index(folder, tokenizer, [json.loads(row["entries"]) for row in results], origin)


@contextlib.contextmanager
def running_ray(workers: int) -> Iterator[None]:
    """Keep Ray running in this context: as it ran before, on the cluster of ``RAY_ADDRESS``, or on this machine."""
    import ray

    if ray.is_initialized():
        yield
        return
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    cores = None if "RAY_ADDRESS" in os.environ else workers  # a cluster knows its own
    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()
