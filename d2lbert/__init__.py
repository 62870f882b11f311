"""d2lbert: contextual text representations, from one-hot vectors to BERT.

The package behind the book. The neutral part (``text``, ``data``, ``tasks``, ``config``, ``metrics``) imports no deep
learning framework; ``d2lbert.torch`` and ``d2lbert.mxnet`` hold the two editions of every model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from d2lbert.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

__version__ = "0.1.0"
__all__ = ["UserError", "__version__", "get_model"]


def get_model(
    name: str,
    dataset_name: str | None = None,
    *,
    edition: str = "torch",
    pretrained: bool = True,
    path: str | Path | None = None,
) -> tuple[Any, Any]:
    """See :func:`d2lbert.models.get_model`. Imported on first use, so that ``import d2lbert`` loads no framework."""
    from d2lbert.models import get_model as implementation

    return implementation(name, dataset_name, edition=edition, pretrained=pretrained, path=path)
