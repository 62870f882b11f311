"""A hub on this machine, and checkpoints for it: true configurations, few and narrow layers, the names of old files."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import file_download
from random_parameters import randomize
from safetensors.torch import load_file, save

from d2lbert.storage import download
from d2lbert.text import SPECIAL_TOKENS
from d2lbert.zoo import folders as zoo_folders
from d2lbert.zoo import table as zoo_table
from d2lbert.zoo.files import fetch_model
from d2lbert.zoo.table import ModelEntry


class Hub:
    """A web server that responds like the hub.

    ``files`` maps paths to contents. ``downloaded`` lists the names of the files that were sent, ``requests`` the
    method, path and headers of every request. The last ``missing`` bytes of a response are not sent. ``newest`` is the
    commit that the branch main stands for, ``status`` the answer for a file that there is not.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.downloaded: list[str] = []
        self.requests: list[tuple[str, str, Message]] = []
        self.missing = 0
        self.newest = "a" * 40
        self.status = 404
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._begin()

            def do_GET(self) -> None:
                hub.downloaded.append(self.path.rsplit("/", 1)[-1])
                self.wfile.write(self._begin())

            def _begin(self) -> bytes:
                """Send all but the body, and return what is to be sent of that."""
                hub.requests.append((self.command, self.path, self.headers))
                if self.path not in hub.files:
                    self.send_error(hub.status)
                    return b""
                content = hub.files[self.path]
                first = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
                self.send_response(206 if first else 200)
                self.send_header("Content-Length", str(len(content) - first))
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
                if "/resolve/" in self.path:
                    revision = self.path.split("/resolve/")[1].split("/")[0]
                    self.send_header("X-Repo-Commit", hub.newest if revision == "main" else revision)
                if first:
                    self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
                self.end_headers()
                return content[first : len(content) - hub.missing]

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    @contextmanager
    def serving(self) -> Iterator[Hub]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield self
        self._http.shutdown()
        self._http.server_close()

    def put(self, entry: ModelEntry, name: str, content: bytes) -> None:
        self.files[f"/{entry.repository}/resolve/{entry.revision}/{name}"] = content


def shrink(entry: ModelEntry) -> ModelEntry:
    """Return an entry with few and narrow layers, without digests; what else the table says of it stays true.

    Vocabulary, positions, activation and epsilon are those of the real model.
    """
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
    return dataclasses.replace(entry, config=entry.config.replace(**sizes), sha256={})


def reference_model(entry: ModelEntry) -> Any:
    """Return the model of ``transformers`` with the entry's configuration and random parameters."""
    import transformers

    values = {**dataclasses.asdict(entry.config), "attn_implementation": "eager"}
    if entry.name.startswith("ernie"):
        model = transformers.ErnieForPreTraining(transformers.ErnieConfig(**values, use_task_id=False))
    else:
        model = transformers.BertForPreTraining(transformers.BertConfig(**values))
    randomize(model, seed=7)
    return model.eval()


def state_of(model: Any, *, gamma: bool, prefix: bool, pooler: bool = True) -> dict[str, torch.Tensor]:
    """Return a state with the names of an old file.

    Args:
        gamma: LayerNorm's parameters are called gamma and beta.
        prefix: the names begin with ``bert.`` (or ``ernie.``), and the heads are there; otherwise the encoder alone.
        pooler: whether there is one.
    """
    state = model.state_dict() if prefix else model.base_model.state_dict()
    state["embeddings.position_ids"] = torch.arange(5)  # a buffer that older versions stored
    state = {name: value for name, value in state.items() if pooler or "pooler" not in name}
    if not gamma:
        return state
    old = {}
    for name, value in state.items():
        old[name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")] = value
    return old


def publish(hub: Hub, entry: ModelEntry, state: dict[str, torch.Tensor]) -> None:
    """Put a state and a vocabulary of the right size on the hub."""
    if entry.weights.endswith(".bin"):
        buffer = io.BytesIO()
        torch.save(state, buffer)
        hub.put(entry, entry.weights, buffer.getvalue())
    else:
        tied = {name: value.contiguous().clone() for name, value in state.items() if "decoder.weight" not in name}
        hub.put(entry, entry.weights, save(tied, {"format": "pt"}))  # as released files say
    pieces = [*SPECIAL_TOKENS, "##s", "word", *(f"w{number}" for number in range(entry.config.vocab_size - 7))]
    hub.put(entry, "vocab.txt", "".join(f"{piece}\n" for piece in pieces).encode())


def fetch_at_once(entry: ModelEntry, barrier: Any, complaints: Any) -> None:
    """Fetch a model in a process of its own, together with the others at the barrier.

    Args:
        barrier: a ``multiprocessing.Barrier`` of all processes.
        complaints: a ``multiprocessing.Queue``; it gets the error, or an empty text if the weights can be read.
    """
    warnings.simplefilter("ignore")
    barrier.wait(timeout=120)
    try:
        load_file(fetch_model(entry) / "model.safetensors")
        complaints.put("")
    except Exception as error:
        complaints.put(f"{type(error).__name__}: {error}")


@contextmanager
def small_zoo(patch: pytest.MonkeyPatch, cache: Path, table: Iterable[ModelEntry]) -> Iterator[Hub]:
    """Serve a hub on this machine, with an empty cache and a table of small networks."""
    for module in (zoo_table, zoo_folders):
        patch.setattr(module, "entries", lambda: tuple(table))
    patch.setenv("D2LBERT_CACHE", str(cache))
    patch.delenv("D2LBERT_OFFLINE", raising=False)
    patch.setattr(download, "PAUSE", 0)
    patch.setattr(file_download, "time", SimpleNamespace(sleep=lambda seconds: None))
    download.forget_failures()
    with Hub().serving() as server:
        patch.setenv("D2LBERT_HUB", server.url + "/")
        yield server
    download.forget_failures()
