"""Items prefetched by a thread, and compiled blocks."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator

import pytest
import torch

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.torch.bert import BertModel
from d2lbert.torch.runtime import compile_blocks, prefetch


def test_items_come_in_order_and_are_made_ahead_by_another_thread() -> None:
    made: list[tuple[int, int]] = []
    second = threading.Event()

    def items() -> Iterator[int]:
        for number in range(5):
            made.append((number, threading.get_ident()))
            if number == 1:
                second.set()
            yield number

    prefetched = prefetch(items(), depth=2)
    assert next(prefetched) == 0
    assert second.wait(60)  # the next one is made before it is requested
    assert [0, *prefetched] == [0, 1, 2, 3, 4]
    assert {thread for _, thread in made} != {threading.get_ident()}


def test_a_failure_comes_where_its_item_would_have_come() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("torn")

    prefetched = prefetch(items(), depth=3)
    assert [next(prefetched), next(prefetched)] == [1, 2]
    with pytest.raises(ValueError, match="torn"):
        next(prefetched)


def test_a_loop_that_ends_early_ends_the_thread() -> None:
    before = threading.active_count()
    for item in prefetch(iter(range(10**9))):
        assert threading.active_count() == before + 1
        if item == 3:
            break
    assert threading.active_count() == before


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++, which is not here")
def test_compiled_blocks_compute_the_same_under_the_same_names() -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertModel(BertConfig(vocab_size=30, initializer_range=0.5, **sizes)).eval()
    names, inputs = list(model.state_dict()), [torch.randint(30, shape) for shape in ((2, 7), (3, 9))]
    with torch.no_grad():
        plain = [model(ids).sequence for ids in inputs]
        compile_blocks(model)
        assert all(block._compiled_call_impl is not None for block in model.encoder.blocks)
        for ids, expected in zip(inputs, plain, strict=True):
            torch.testing.assert_close(model(ids).sequence, expected, atol=1e-5, rtol=1e-5)
    assert list(model.state_dict()) == names


def test_without_a_compiler_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UserError, match=r"compiling needs a C\+\+ compiler: install g\+\+"):
        compile_blocks(torch.nn.Linear(1, 1))
