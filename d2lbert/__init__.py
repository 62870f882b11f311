"""d2lbert: contextual text representations, from one-hot vectors to BERT.

The package behind the book. The neutral part (``text``, ``data``, ``tasks``, ``config``, ``metrics``) imports no deep
learning framework; ``d2lbert.torch`` and ``d2lbert.mxnet`` hold the two editions of every model.
"""

from typing import Any

from d2lbert.errors import UserError

__version__ = "0.1.0"
__all__ = ["UserError", "__version__", "get_model"]


def get_model(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """See :func:`d2lbert.models.get_model`. Imported on first use, so that ``import d2lbert`` loads no framework."""
    from d2lbert.models import get_model as implementation

    return implementation(*args, **kwargs)
