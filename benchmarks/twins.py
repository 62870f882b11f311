"""The same model in ``transformers``: what ours is measured against."""

from __future__ import annotations

import tempfile
from typing import Any

import transformers


def twin(ours: Any, reference: str) -> Any:
    """Return a model of ``transformers`` with our weights and rates of dropout, and fused attention (SDPA).

    Args:
        ours: our model, with ``save_pretrained``.
        reference: the name of the class, such as ``"BertForPreTraining"``.
    """
    with tempfile.TemporaryDirectory() as folder:
        ours.save_pretrained(folder)
        return getattr(transformers, reference).from_pretrained(folder, attn_implementation="sdpa")
