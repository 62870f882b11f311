"""The benchmark of threads: what stays, stays as long as it should, and the sides do the same work."""

from __future__ import annotations

import threading

import pytest

from benchmarks.deployment import helpers


def test_a_thread_works_and_stays_as_long_as_the_context() -> None:
    worked = list[threading.Thread]()
    with helpers.staying(lambda: worked.append(threading.current_thread())):
        assert worked[0].is_alive()
    assert not worked[0].is_alive()


def test_the_sides_compute_the_same_in_threads_that_end(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[tuple[str, threading.Thread, int]]()

    def predict(texts: list[str]) -> None:
        staying = threading.active_count() - len({threading.current_thread(), threading.main_thread()})
        seen.append((texts[0], threading.current_thread(), staying))

    monkeypatch.setattr(helpers, "predict", predict)
    for name, side in helpers.sides_of(["a", "b"]).items():
        before, lap = threading.active_count() - 1, side(3)
        timed = seen[-3:]
        assert lap.amount == 3
        assert [text for text, *_ in timed] == ["a", "b", "a"]
        assert {others - before for *_, others in timed} == {int(name == helpers.BESIDE)}
        assert not any(thread.is_alive() for _, thread, _ in seen)
        assert len(seen) == 3 + helpers.WARM_UP + int(name == helpers.BESIDE)
        seen.clear()
