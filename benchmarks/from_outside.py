"""A model as those see it who ask: behind a server, in SageMaker's container, in a browser.

The model is a folder that says how many tokens it reads (``trained_length``): by default a classifier reads 128. What
is asked runs in processes of its own; the clients share the machine with it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.clients import send
from benchmarks.deployment.serving import OURS, PORT, WARM_UP, serving
from benchmarks.int8_sides import batches_of
from benchmarks.record import ROOT
from d2lbert.deploy.browser.export import export_for_browser
from d2lbert.weights.folder import CONFIG_FILE
from d2lbert.zoo import locate
from tools.headless import chromium, served

SERVED, CONTAINER, TRANSFORM, BROWSER = "served", "in SageMaker's container", "batch transform", "in the browser"
# The ways to ask, in the order of the book -> the slug of the chapter that shows it.
WAYS = {SERVED: "serving", CONTAINER: "sagemaker", TRANSFORM: "sagemaker", BROWSER: "browser"}
CLIENTS = 64  # of the server and of the container
TASK = "asked"  # its name in the browser
_MODULES = ROOT / "d2lbert" / "deploy" / "browser" / "js"
_RUNTIME = ROOT / "site" / "extra" / "onnxruntime"
# The first of the contents is answered once before, to warm up.
_RUN = """
const [task, contents, done] = arguments;
(async () => {
  const { Model, loadRuntime } = await import("./model.js");
  const model = await Model.open("models/", await loadRuntime("onnxruntime/"));
  const found = [];
  for (const { text, pair } of [contents[0], ...contents]) {
    const began = performance.now();
    const answer = await (pair === undefined ? model.classify(task, text) : model.answer(task, pair, text));
    found.push([answer, (performance.now() - began) / 1000]);
  }
  return JSON.stringify(found.slice(1));
})().then(done, (error) => done(`failed: ${error}`));
"""


@dataclass(frozen=True)
class Asked:
    """What is asked.

    Fields:
        contents: of requests, in their real lengths.
        long: contents of nearly as many tokens as the model reads, to take the time of one answer.
    """

    contents: list[dict[str, str]]
    long: list[dict[str, str]]


@dataclass(frozen=True)
class Seen:
    """What those who ask have seen.

    Fields:
        answers: to the contents, in their order.
        waited: seconds until the answer to each long one; empty where none was sent.
        per_second: answers.
        downloaded: bytes of the page, where a browser answered.
    """

    answers: list[dict[str, Any]]
    waited: list[float]
    per_second: float
    downloaded: int | None = None


def seen_from_outside(way: str, name: str, tokens: int, asked: Asked, seconds: float) -> Seen:
    """Ask a model in one of the :data:`WAYS`.

    Args:
        name: of the model.
        tokens: that it reads.
        asked: of the model.
        seconds: for each measurement; a browser answers everything once.

    Raises:
        SystemExit: some requests were refused, or the page failed.
        UserError: Chromium or its driver is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = reading(name, tokens, Path(folder) / "read")
        if way == BROWSER:
            return in_browser(model, asked)
        if way == TRANSFORM:
            with container(model, Path(folder) / "root", batch=True):
                return by_transform(asked, seconds)
        with serving([*OURS, str(model)]) if way == SERVED else container(model, Path(folder) / "root"):
            return by_clients(asked, CLIENTS, seconds)


def reading(model: str, tokens: int, folder: Path) -> Path:
    """Return a copy of a model that reads so many tokens."""
    shutil.copytree(locate(model), folder)
    path = folder / CONFIG_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "trained_length": tokens}))
    return folder


def by_clients(asked: Asked, clients: int, seconds: float) -> Seen:
    """Ask the server at :data:`~benchmarks.deployment.serving.PORT`: many clients, and one with what is long.

    The answers that are returned come after that, to requests of 32 contents each.

    Raises:
        SystemExit: it refused some.
    """
    send(PORT, "/invocations", asked.contents, clients, min(WARM_UP, seconds))
    one = send(PORT, "/invocations", asked.long, 1, seconds)
    many = send(PORT, "/invocations", asked.contents, clients, seconds)
    if one.refused or many.refused:
        raise SystemExit(f"the server refused {one.refused + many.refused} requests: run it again on an idle machine")
    answers = [answer for batch in batches_of(asked.contents) for answer in answers_to_lines(batch)]
    return Seen(answers, one.waited, len(many.waited) / many.seconds)


def by_transform(asked: Asked, seconds: float) -> Seen:
    """Ask the server as a batch transform job does: everything in one request of JSON lines, again and again."""
    answers, count, began = answers_to_lines(asked.contents), 0, time.perf_counter()
    while count == 0 or time.perf_counter() - began < seconds:
        count += len(answers_to_lines(asked.contents))
    return Seen(answers, [], count / (time.perf_counter() - began))


def answers_to_lines(contents: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return the server's answers to one request of JSON lines."""
    body = "".join(json.dumps(content) + "\n" for content in contents).encode()
    kind = {"Content-Type": "application/jsonlines"}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/invocations", body, kind)
    with urllib.request.urlopen(request, timeout=600) as reply:
        return [json.loads(line) for line in reply.read().splitlines()]


@contextmanager
def container(model: Path, root: Path, batch: bool = False) -> Iterator[None]:
    """Run the program ``serve`` of SageMaker's container in this context, with a model under a root folder.

    Args:
        batch: with the settings of a batch transform job, instead of those of an endpoint.
    """
    shutil.copytree(model, root / "model")
    variables = {"SAGEMAKER_BASE_DIR": str(root), "SAGEMAKER_BIND_TO_PORT": str(PORT)}
    variables |= {"SAGEMAKER_BATCH": "true"} if batch else {}
    with serving(["-m", "d2lbert.deploy.sagemaker", "serve"], variables):
        yield


def in_browser(model: Path, asked: Asked) -> Seen:
    """Let Chromium answer, one content after the other, in 8 bits, on one core.

    A content with a pair is a question about a text, without one it is a text to classify.

    Raises:
        SystemExit: the page failed.
        UserError: Chromium or its driver is not installed.
    """
    with tempfile.TemporaryDirectory() as name:
        site = Path(name)
        shutil.copytree(_MODULES, site, dirs_exist_ok=True)
        shutil.copytree(_RUNTIME, site / "onnxruntime")
        export_for_browser({TASK: str(model)}, site / "models", "onnx-web-int8")
        (site / "index.html").write_text("<!doctype html><title>a model</title>")
        files = [path for path in site.rglob("*") if path.is_file() and path.name not in ("index.html", "LICENSE")]
        downloaded = sum(path.stat().st_size for path in files)
        with served(site) as address, chromium(seconds=1200) as window:
            window.get(f"{address}/index.html")
            told = window.execute_async_script(_RUN, TASK, [*asked.long, *asked.contents])
    if told.startswith("failed"):
        raise SystemExit(f"the browser {told}")
    found, long = json.loads(told), len(asked.long)
    answers, seconds = [answer for answer, _ in found], [second for _, second in found]
    return Seen(answers[long:], seconds[:long], len(asked.contents) / sum(seconds[long:]), downloaded)
