"""A state on the disk: it comes back with the random generators, and only for the run that it is of."""

from __future__ import annotations

import json
import random
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from d2lbert import UserError
from d2lbert.storage import checkpoints
from d2lbert.storage.checkpoints import DamagedCheckpointWarning
from d2lbert.torch.training.resuming import (
    fingerprint_of_weights,
    load_checkpoint,
    save_checkpoint,
)

SETTINGS = {"epochs": 3, "labels": ["no", "yes"], "nothing": None}
STATE = {"weights": {"a": torch.arange(3)}, "step": 7, "history": [{"loss": 0.5}], "order": "text"}


def _draw() -> list[Any]:
    """The next numbers of every generator, normal ones too: of those one more is kept for later."""
    return [torch.rand(3).tolist(), np.random.rand(2).tolist(), np.random.randn(), random.random(), random.gauss(0, 1)]


def _load(folder: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    with load_checkpoint(folder, settings) as state:
        return state


def test_a_state_comes_back(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 7, SETTINGS, STATE)
    found = _load(tmp_path, SETTINGS)
    assert found is not None
    assert sorted(found) == sorted(STATE)  # the random states are taken out
    assert found["weights"]["a"].tolist() == [0, 1, 2]
    assert {name: found[name] for name in ("step", "history", "order")} == {
        name: STATE[name] for name in ("step", "history", "order")
    }


def test_random_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    torch.manual_seed(1)
    np.random.seed(2)
    random.seed(3)
    _draw()  # leaves half of a pair of normal numbers behind
    save_checkpoint(tmp_path, 1, SETTINGS, {})
    expected = [_draw(), _draw()]
    assert _draw() not in expected
    _load(tmp_path, SETTINGS)
    assert [_draw(), _draw()] == expected


def test_the_newest_comes_and_few_stay(tmp_path: Path) -> None:
    for step in (1, 2, 3, 10):
        save_checkpoint(tmp_path, step, SETTINGS, {"step": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-00000003", "checkpoint-00000010"]
    assert _load(tmp_path, SETTINGS) == {"step": 10}
    save_checkpoint(tmp_path, 11, SETTINGS, {"step": 11}, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-00000011"]


def test_where_there_is_none_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    assert _load(tmp_path, SETTINGS) is None
    assert _load(tmp_path / "not there", SETTINGS) is None
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"epochs": 4}, "epochs was 3 and is now 4"),
        ({"labels": ["yes", "no"]}, r"labels was \['no', 'yes'\] and is now \['yes', 'no'\]"),
        ({"clip": 1.0}, "clip was None and is now 1.0"),
    ],
)
def test_a_state_of_another_run_is_refused(tmp_path: Path, change: dict[str, Any], difference: str) -> None:
    save_checkpoint(tmp_path, 1, SETTINGS, STATE)
    before = torch.get_rng_state()
    with pytest.raises(
        UserError, match=rf" is of another run: {difference}; give the same, or remove .* to start anew$"
    ):
        _load(tmp_path, {**SETTINGS, **change})
    assert torch.equal(torch.get_rng_state(), before)


def test_a_setting_that_is_gone_is_a_difference(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, SETTINGS, STATE)
    with pytest.raises(UserError, match="epochs was 3 and is now None"):
        _load(tmp_path, {name: value for name, value in SETTINGS.items() if name != "epochs"})


def test_settings_are_compared_as_json(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, {"labels": ("no", "yes")}, {"step": 1})
    for labels in (("no", "yes"), ["no", "yes"]):
        assert _load(tmp_path, {"labels": labels}) == {"step": 1}


def test_damaged_states_are_passed_over_and_none_left_is_one_line(tmp_path: Path) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, step, SETTINGS, {"step": step})
    (tmp_path / "checkpoint-00000002" / "state.pt").write_bytes(b"")
    with pytest.warns(DamagedCheckpointWarning):
        assert _load(tmp_path, SETTINGS) == {"step": 1}
    (tmp_path / "checkpoint-00000001" / "settings.json").write_text("{}")
    with pytest.warns(DamagedCheckpointWarning), pytest.raises(UserError, match=r"is damaged: remove .* to start anew"):
        _load(tmp_path, SETTINGS)


class _Code:
    """A pickle of it would run code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("this must not be printed",)


def test_code_in_a_file_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_checkpoint(tmp_path, 1, SETTINGS, {"code": _Code()})
    with pytest.raises(UserError, match=r"does not hold the state of this run \(UnpicklingError\)"):
        _load(tmp_path, SETTINGS)
    assert "printed" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"garbage" * 100, "a list", "no random numbers", "other random numbers"])
def test_a_state_that_was_made_up_is_one_line(tmp_path: Path, content: bytes | str) -> None:
    """The digests of its files fit, but no run has written it."""
    made_up = {"a list": [1], "no random numbers": {"step": 1}, "other random numbers": {"random": {"torch": 3}}}

    def write(folder: Path) -> None:
        (folder / "settings.json").write_text(json.dumps(SETTINGS))
        if isinstance(content, bytes):
            (folder / "state.pt").write_bytes(content)
        else:
            torch.save(made_up[content], folder / "state.pt")

    checkpoints.save(tmp_path, 1, write, keep=1)
    with pytest.raises(UserError, match="does not hold the state of this run") as caught:
        _load(tmp_path, SETTINGS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("limit", [0, 100, 30_000, 10**9])
def test_a_full_disk_is_one_line_and_leaves_the_state_before(tmp_path: Path, limit: int) -> None:
    """A limit on the size of a file stops the writing at any place, as a full disk does."""
    before = {"step": 1, "weights": torch.zeros(3)}
    save_checkpoint(tmp_path, 1, SETTINGS, before)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = _size_of_state(tmp_path / "sizes", {"step": 2, "weights": torch.zeros(70_000)})
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(limit, size - 1), hard))
    try:
        with pytest.raises(UserError, match=r"cannot write .*File too large; free space, then go on with --resume"):
            save_checkpoint(tmp_path, 2, SETTINGS, {"step": 2, "weights": torch.zeros(70_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert [path.name for path in tmp_path.glob("*checkpoint*")] == ["checkpoint-00000001"]
    found = _load(tmp_path, SETTINGS)
    assert found is not None
    assert found["step"] == 1


def _size_of_state(folder: Path, state: dict[str, Any]) -> int:
    save_checkpoint(folder, 2, SETTINGS, state)
    return (folder / "checkpoint-00000002" / "state.pt").stat().st_size


def test_an_error_that_is_not_of_the_disk_keeps_its_trace(tmp_path: Path) -> None:
    class Unknown(torch.Tensor):
        def __reduce_ex__(self, protocol: Any) -> Any:
            raise RuntimeError("a mistake in the program")

    with pytest.raises(RuntimeError, match="a mistake in the program"):
        save_checkpoint(tmp_path, 1, SETTINGS, {"weights": torch.zeros(3).as_subclass(Unknown)})


def _layer(value: float = 0.0, shape: tuple[int, ...] = (2, 3), name: str = "weight") -> nn.Module:
    module = nn.Module()
    module.register_parameter(name, nn.Parameter(torch.full(shape, value)))
    return module


def test_other_weights_have_another_name() -> None:
    changed = _layer()
    with torch.no_grad():
        changed.weight[1, 2] = 1e-30
    several = [_layer(), changed, _layer(shape=(3, 2)), _layer(name="other"), _layer(1.0), _layer().bfloat16()]
    names = [fingerprint_of_weights(module) for module in several]
    assert len(set(names)) == len(several)
    assert fingerprint_of_weights(_layer().requires_grad_(False)) == names[0]
    turned = _layer()
    turned.weight = nn.Parameter(torch.zeros(3, 2).T)  # the same numbers, laid out otherwise
    assert fingerprint_of_weights(turned) == names[0]


def test_buffers_count_as_weights() -> None:
    modules = [_layer(), _layer()]
    modules[1].register_buffer("mean", torch.tensor(1.0))
    assert len({fingerprint_of_weights(module) for module in modules}) == 2
