"""What every block of the MXNet edition stands on.

MXNet 1.9 runs a ``HybridBlock`` in two ways. At first every operation runs at once, on arrays (``mx.nd``). After
``hybridize()`` the block is called one time with symbols (``mx.sym``), which record a graph of operations, and from
then on the graph runs as a whole. Symbols have no shape, so code for both uses operations that need none. That one call
must be alone: several threads may share a model, hybridized or not, once it has been called after ``hybridize()``.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any, TypeGuard

from mxnet import gluon, nd, sym

from d2lbert.errors import UserError


class Block(gluon.HybridBlock):
    """A ``HybridBlock`` that also takes keyword arguments, as PyTorch's modules do."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``forward`` between its hooks, as Gluon does, and put keywords into their places.

        Gluon's own call passes arguments by position alone. A recorded graph knows no other, so only arguments that
        ``forward`` wants by keyword stay keywords.
        """
        if kwargs:
            bound = inspect.signature(self.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        for hook in self._forward_pre_hooks.values():
            hook(self, args)
        output = self.forward(*args, **kwargs)
        for hook in self._forward_hooks.values():
            hook(self, args, output)
        return output


class Embedding(gluon.nn.Embedding):
    """A table of vectors that refuses ids outside it. MXNet itself takes the first or the last row for them."""

    def forward(self, ids: Any) -> Any:
        """Map ids of any shape to their vectors, with one dimension more. The ids of a recorded graph are not checked.

        Raises:
            UserError: an id is outside the table.
        """
        if is_array(ids):
            rows = self.weight.shape[0]
            for number in (int(ids.min().asscalar()), int(ids.max().asscalar())):
                if not 0 <= number < rows:
                    raise UserError(f"id {number} is not from 0 to {rows - 1}, the rows of its embeddings")
        return super().forward(ids)


def is_array(x: Any) -> TypeGuard[Any]:
    """Return whether x is an array with numbers and a shape, rather than a symbol."""
    return isinstance(x, nd.NDArray)


def operations(x: Any) -> ModuleType:
    """Return the module with the operations for x: ``mx.nd`` for an array, ``mx.sym`` for a symbol."""
    return nd if is_array(x) else sym


def shared_names(block: gluon.Block) -> dict[str, gluon.Parameter]:
    """Return the trained parameters, each once, under the names that both editions share.

    A name is the path of attributes, such as ``encoder.blocks.0.attention.query.weight``. Only LayerNorm's two differ:
    gamma and beta in MXNet, weight and bias in PyTorch and in Hugging Face's files.
    """
    greek = {"gamma": "weight", "beta": "bias"}
    parameters: dict[str, gluon.Parameter] = {}
    for name, parameter in block._collect_params_with_prefix().items():
        path, _, kind = name.rpartition(".")
        if parameter.grad_req != "null" and not any(parameter is other for other in parameters.values()):
            parameters[f"{path}.{greek.get(kind, kind)}".removeprefix(".")] = parameter
    return parameters
