"""A process that trains alone, and its state on the disk; system/test_processes.py shows what many do together."""

from __future__ import annotations

import errno
import os
import socket
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.api import CheckpointException

from d2lbert import UserError
from d2lbert.torch.training import distributed as distributed_training
from d2lbert.torch.training.distributed import World, gather, load_state, save_state

TENSORS = {
    "weight": torch.arange(6.0).view(2, 3),
    "half": torch.tensor([1.5, -2.0]).bfloat16(),
    "step": torch.tensor(7),
}


def _started_by_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what torchrun sets for one process alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    values = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def test_without_torchrun_a_process_is_alone_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert World.init(sharded=True) == World(rank=0, size=1, sharded=False)
    assert not distributed.is_initialized()


def test_what_torchrun_has_started_is_joined_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    _started_by_torchrun(monkeypatch)
    world = World.init(sharded=True)
    try:
        assert world == World(rank=0, size=1, sharded=True)
        assert distributed.get_backend() == "gloo"
        assert World.init() == World()  # a second time changes nothing
    finally:
        world.destroy()
    assert not distributed.is_initialized()
    world.destroy()


def test_alone_nothing_is_wrapped_shared_or_awaited() -> None:
    world, model, values = World(), nn.Linear(2, 1), torch.tensor([1.0, 2.0])
    assert world.wrap(model) is model
    assert world.broadcast("a name") == "a name"
    assert world.broadcast() == ""
    assert world.all_reduce(values).tolist() == [1.0, 2.0]
    world.barrier()
    with world.no_sync(model):
        model(torch.ones(1, 2)).sum().backward()
    assert model.weight.grad.tolist() == [[1.0, 1.0]]


def test_each_process_has_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert World(rank=11, size=16).device == torch.device("cuda", 3)
    monkeypatch.delenv("LOCAL_RANK")
    assert World().device == torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert World().device == torch.device("cpu")


@pytest.mark.parametrize(("count", "there"), [(1, "there is only 1"), (3, "there are only 3")])
def test_a_process_without_a_gpu_is_told_so_before_the_others_are_met(
    count: int, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _started_by_torchrun(monkeypatch)
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(UserError, match=f"process 4 of this machine has no GPU, for {there}: ") as error:
        World.init()
    assert "\n" not in str(error.value)
    assert not distributed.is_initialized()


def test_several_processes_do_not_take_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed_training, "best_device", lambda: torch.device("cuda", 1))
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert World().device == torch.device("cuda", 1)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(UserError, match="D2LBERT_DEVICE=cuda:1 is one GPU for several processes: name cuda, without"):
        _ = World().device


def test_processes_talk_over_what_their_device_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may have a GPU that the run does not use."""
    _started_by_torchrun(monkeypatch)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    chosen: list[Any] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(distributed, "init_process_group", lambda backend, **_: chosen.append(backend))
    monkeypatch.setattr(distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 1)
    World.init()
    monkeypatch.setenv("D2LBERT_DEVICE", "cpu")
    _started_by_torchrun(monkeypatch)
    World.init()
    assert chosen == [torch.device("cuda", 0), "nccl", "gloo"]


def test_a_state_comes_back_in_place_and_without_a_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_state(tmp_path / "state", TENSORS, World())
        found = {name: torch.zeros_like(value) for name, value in TENSORS.items()}
        places = {name: value.data_ptr() for name, value in found.items()}
        load_state(tmp_path / "state", found, World())
    for name, value in TENSORS.items():
        assert torch.equal(found[name], value)
        assert found[name].dtype == value.dtype
        assert found[name].data_ptr() == places[name]


def test_the_files_are_safetensors(tmp_path: Path) -> None:
    """So nothing in them can run."""
    save_state(tmp_path / "state", TENSORS, World())
    files = [path for path in sorted((tmp_path / "state").iterdir()) if path.suffix != ".json"]
    assert [path.suffix for path in files] == [".safetensors"]
    assert torch.equal(load_file(files[0])["weight"], TENSORS["weight"])


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CheckpointException("save", {0: (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), None)})

    monkeypatch.setattr(checkpoint, "save", fail)
    message = r"^cannot write .*state: No space left on device; free space, then go on with --resume$"
    with pytest.raises(UserError, match=message):
        save_state(tmp_path / "state", TENSORS, World())


def test_another_failure_is_not_taken_for_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CheckpointException("save", {0: (ValueError("a fault of ours"), None)})

    monkeypatch.setattr(checkpoint, "save", fail)
    with pytest.raises(CheckpointException):
        save_state(tmp_path / "state", TENSORS, World())


def test_whole_tensors_are_gathered_as_they_are() -> None:
    found = gather(TENSORS)
    assert list(found) == list(TENSORS)
    assert all(found[name] is value for name, value in TENSORS.items())
