"""What is asked from outside: a model that reads more, clients and transform jobs, and what a browser tells."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchmarks import from_outside
from benchmarks.from_outside import WAYS, Asked
from d2lbert.deploy.exported import load_trained
from d2lbert.deploy.sagemaker.serve import server_settings
from d2lbert.tasks.base import longest_input

CONTENTS = [{"text": "good"}, {"text": "bad"}, {"text": "good again"}]


class _Server(BaseHTTPRequestHandler):
    """Labels a text by its first word; a text that holds "refused" is refused."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str, int]]] = []  # type and number of texts of each request

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        contents = [json.loads(line) for line in body.splitlines()]
        self.seen.append((self.headers["Content-Type"], len(contents)))
        answer = "".join(json.dumps({"label": one["text"].split()[0]}) + "\n" for one in contents).encode()
        self.send_response(429 if "refused" in body else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    monkeypatch.setattr(from_outside, "PORT", server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _Server.seen.clear()
    yield _Server.seen
    server.shutdown()
    server.server_close()


def test_a_copy_of_a_model_reads_as_many_tokens_as_it_is_told(tmp_path: Path) -> None:
    model, _ = load_trained(from_outside.reading("minilm-sst2", 256, tmp_path / "copy"))
    assert longest_input(model, 128) == 256
    model, _ = load_trained("minilm-sst2")
    assert longest_input(model, 128) == 128


def test_clients_wait_for_what_is_long_and_get_an_answer_to_everything(seen: list[tuple[str, int]]) -> None:
    found = from_outside.by_clients(Asked(CONTENTS, CONTENTS[:1]), 2, 0.05)
    assert [answer["label"] for answer in found.answers] == ["good", "bad", "good"]
    assert found.waited
    assert found.per_second > 0
    assert seen[-1] == ("application/jsonlines", 3)


def test_a_refusal_stops_the_measurement(seen: list[tuple[str, int]]) -> None:
    with pytest.raises(SystemExit, match="the server refused"):
        from_outside.by_clients(Asked([{"text": "refused"}], CONTENTS), 1, 0.01)


def test_a_transform_job_sends_everything_in_one_request(seen: list[tuple[str, int]]) -> None:
    found = from_outside.by_transform(Asked(CONTENTS, []), 0.0)
    assert [answer["label"] for answer in found.answers] == ["good", "bad", "good"]
    assert (found.waited, set(seen), len(seen)) == ([], {("application/jsonlines", 3)}, 2)


class _Window:
    """A browser that needs a second for a long text and a quarter of one for a short one."""

    told = ""

    def get(self, address: str) -> None:
        assert address.endswith("/index.html")

    def execute_async_script(self, script: str, task: str, contents: list[dict[str, str]]) -> str:
        answers = [({"label": one["text"]}, 1.0 if "long" in one["text"] else 0.25) for one in contents]
        return self.told or json.dumps(answers)


def test_a_browser_tells_its_answers_and_its_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def export(sources: dict[str, str], folder: Path, format: str) -> None:
        assert (list(sources), format) == ([from_outside.TASK], "onnx-web-int8")
        folder.mkdir()
        (folder / "model.onnx").write_bytes(b"x" * 1000)

    window = _Window()
    monkeypatch.setattr(from_outside, "export_for_browser", export)
    monkeypatch.setattr(from_outside, "chromium", lambda **_: contextlib.nullcontext(window))
    asked = Asked(CONTENTS, [{"text": "long one"}, {"text": "long two"}])
    found = from_outside.in_browser(tmp_path, asked)
    assert found.answers == [{"label": "good"}, {"label": "bad"}, {"label": "good again"}]
    assert (found.waited, found.per_second) == ([1.0, 1.0], 4.0)
    modules = [*from_outside._MODULES.glob("*.js"), *from_outside._RUNTIME.glob("ort*")]
    assert found.downloaded == 1000 + sum(path.stat().st_size for path in modules)
    window.told = "failed: UserError: no"
    with pytest.raises(SystemExit, match=r"^the browser failed: UserError: no$"):
        from_outside.in_browser(tmp_path, asked)


def test_the_container_serves_what_lies_under_its_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def serving(command: list[str], variables: dict[str, str]) -> Any:
        started.append((command, variables))
        return contextlib.nullcontext()

    monkeypatch.setattr(from_outside, "serving", serving)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with from_outside.container(tmp_path / "model", tmp_path / "root"):
        assert (tmp_path / "root" / "model" / "config.json").is_file()
    ((command, variables),) = started
    assert command == ["-m", "d2lbert.deploy.sagemaker", "serve"]
    assert variables["SAGEMAKER_BASE_DIR"] == str(tmp_path / "root")
    assert not server_settings(variables).texts_per_request > 10_000
    with from_outside.container(tmp_path / "model", tmp_path / "job", batch=True):
        assert server_settings(started[1][1]).texts_per_request > 10_000


def test_each_way_asks_a_model_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs while it is asked, with the model that reads so many tokens."""
    running: list[tuple[Any, ...]] = []

    @contextlib.contextmanager
    def program(*given: Any, **settings: Any) -> Iterator[None]:
        model = Path(given[0][-1] if isinstance(given[0], list) else given[0])
        assert json.loads((model / "config.json").read_text())["trained_length"] == 200
        running.append((len(given), settings))
        yield
        running.pop()

    def told(*of: Any) -> Any:
        return (*running, *of[1:])

    monkeypatch.setattr(from_outside, "serving", program)
    monkeypatch.setattr(from_outside, "container", program)
    for name in ("by_clients", "by_transform"):
        monkeypatch.setattr(from_outside, name, told)
    monkeypatch.setattr(from_outside, "in_browser", lambda model, asked: [*running, model.name])
    found = {way: from_outside.seen_from_outside(way, "minilm-sst2", 200, Asked([], []), 3.0) for way in WAYS}
    assert found == {
        "served": ((1, {}), from_outside.CLIENTS, 3.0),
        "in SageMaker's container": ((2, {}), from_outside.CLIENTS, 3.0),
        "batch transform": ((2, {"batch": True}), 3.0),
        "in the browser": ["read"],
    }
    assert not running
