"""A pretend accelerator for machines that have none: the device "pretend", computed by the processor.

Its tensors wrap those of the processor. As on a GPU, an operation that mixes the two fails, and so does ``.numpy()``
without ``.cpu()``. So code that forgets to move a tensor fails here as it would there, and the results are those of the
processor, bit for bit.

With this folder on ``PYTHONPATH``, ``import torch`` finds the device by the entry point beside this file (PyTorch loads
what the group ``torch.backends`` names), in every process: commands and notebooks, too. With ``D2LBERT_DEVICE=pretend``
it is the best device. What a GPU has and this does not: memory and a random generator of its own, streams, compiled
blocks, sparse gradients. Python runs at every operation, so models should be tiny.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._device import _device_constructors
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
# A tensor of the processor may take part in these on a GPU: copies, and indices.
MAY_MIX = {
    "aten._to_copy.default",
    "aten.copy_.default",
    "aten.index.Tensor",
    "aten.index_put.default",
    "aten.index_put_.default",
    "aten._index_put_impl_.default",
    "aten._pack_padded_sequence.default",
    "aten.gru.data",
    "aten.lstm.data",
    "aten._pad_packed_sequence.default",
}
# Nearly everywhere else a tensor of the processor without a dimension may, but here no GPU takes one.
MAY_NOT_MIX = {"aten.masked_fill.Scalar", "aten.masked_fill_.Scalar"}
TO_NUMBER = "aten._local_scalar_dense.default"  # .item()
SAME_KIND = "aten._has_compatible_shallow_copy_type.default"  # asked when a module is moved
PACK = "aten._pack_padded_sequence.default"  # the lengths that it takes and the sizes that it returns are on no GPU


class PretendTensor(Tensor):
    """A tensor on the device, whose numbers are those of ``inner``, a tensor of the processor."""

    # Only operations are looked at, below, and not the functions that call them.
    __torch_function__ = torch._C._disabled_torch_function_impl
    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> PretendTensor:
        tensor = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
        )
        tensor.inner = inner
        return tensor

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"PretendTensor({self.inner})"

    def __reduce_ex__(self, protocol: int) -> Any:  # type: ignore[override]
        """Be saved as a tensor of the processor, which ``map_location`` would make of it anyway."""
        return self.detach().cpu().__reduce_ex__(protocol)

    def __format__(self, style: str) -> str:
        """Format a single number, as a tensor on a GPU does."""
        return format(self.item(), style) if self.dim() == 0 else super().__format__(style)

    def tolist(self) -> Any:
        """Return nested lists of numbers, which needs no ``.cpu()`` on a GPU either."""
        return self.detach().cpu().tolist()

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return run(function, args, kwargs or {})


def run(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run one operation on the wrapped tensors and wrap what it returns.

    Raises:
        RuntimeError: one of several tensors is of the processor and has a dimension or more, or is a mask, as on a GPU.
    """
    if str(function) == SAME_KIND:
        return all(isinstance(arg, PretendTensor) for arg in args)
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    strangers = [tensor for tensor in tensors if not isinstance(tensor, PretendTensor)]
    if str(function) not in MAY_NOT_MIX:
        strangers = [tensor for tensor in strangers if tensor.dim()]
    if strangers and len(strangers) < len(tensors) and str(function) not in MAY_MIX:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found {NAME} and {strangers[0].device} in {function}"
        )
    if len(strangers) < len(tensors) and any(isinstance(leaf, torch.Generator) for leaf in leaves):
        raise RuntimeError(f"Expected a {NAME!r} device type for generator but found 'cpu' in {function}")
    plain_args, plain_kwargs = tree_map(_unwrap, (args, kwargs))
    if plain_kwargs.get("pin_memory"):
        plain_kwargs["pin_memory"] = False
    # In inference mode a view of an ordinary tensor is an ordinary tensor, but a wrapper made there would not be one.
    with torch.inference_mode(False), torch.no_grad():
        result = FUSED_CELLS.get(str(function), function)(*plain_args, **plain_kwargs)
        if torch.Tag.inplace_view in getattr(function, "tags", ()):  # such as transpose_: the wrapper's shape, too
            with no_dispatch():
                function(*args, **kwargs)
        return _wrapped(function, result, tensors, kwargs.get("device"))


def _wrapped(function: Any, result: Any, tensors: Sequence[Tensor], device: Any) -> Any:
    """Return what an operation returned, on the device; a number, or a copy for the processor, as it is."""
    if str(function) == TO_NUMBER or (device is not None and torch.device(device).type == "cpu"):
        return result
    if str(function) == PACK:
        return PretendTensor(result[0]), result[1]
    # An operation in place, or with out=, returns one of its arguments: the same wrapper, not a second one.
    wrappers = {id(leaf.inner): leaf for leaf in tensors if isinstance(leaf, PretendTensor)}
    return tree_map(lambda leaf: _wrap(leaf, wrappers) if isinstance(leaf, Tensor) else leaf, result)


def _wrap(tensor: Tensor, wrappers: Mapping[int, PretendTensor]) -> PretendTensor:
    return wrappers[id(tensor)] if id(tensor) in wrappers else PretendTensor(tensor)


def _unwrap(leaf: Any) -> Any:
    if isinstance(leaf, PretendTensor):
        return leaf.inner
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf


def _gru_cell(
    of_input: Tensor, of_hidden: Tensor, state: Tensor, input_bias: Tensor | None, hidden_bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What ``nn.GRU`` does with the products of its matrices on every device but the processor."""
    for_input = of_input if input_bias is None else of_input + input_bias
    for_hidden = of_hidden if hidden_bias is None else of_hidden + hidden_bias
    (r, z, n), (hidden_r, hidden_z, hidden_n) = for_input.chunk(3, 1), for_hidden.chunk(3, 1)
    r, z = torch.sigmoid(r + hidden_r), torch.sigmoid(z + hidden_z)
    n = torch.tanh(n + r * hidden_n)
    return n + z * (state - n), torch.cat([r, z, n, hidden_n, state], 1)


def _gru_cell_backward(gradient: Tensor, saved: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    r, z, n, hidden_n, state = saved.chunk(5, 1)
    for_n = gradient * (1 - z) * (1 - n * n)
    for_z, for_r = gradient * (state - n) * z * (1 - z), for_n * hidden_n * r * (1 - r)
    of_input, of_hidden = torch.cat([for_r, for_z, for_n], 1), torch.cat([for_r, for_z, for_n * r], 1)
    biases = (of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return of_input, of_hidden, gradient * z, *biases


def _lstm_cell(
    of_input: Tensor, of_hidden: Tensor, cell: Tensor, input_bias: Tensor | None, hidden_bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for ``nn.LSTM``."""
    gates = of_input + of_hidden
    if input_bias is not None and hidden_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    new = f * cell + i * g
    return o * new.tanh(), new, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(
    of_output: Tensor | None, of_cell: Tensor | None, cell: Tensor, new: Tensor, saved: Tensor, has_bias: bool
) -> tuple[Tensor | None, ...]:
    i, f, g, o = saved.chunk(4, 1)
    squashed = new.tanh()
    gradient = torch.zeros_like(new) if of_cell is None else of_cell
    for_o = torch.zeros_like(new)
    if of_output is not None:
        gradient = gradient + of_output * o * (1 - squashed * squashed)
        for_o = of_output * squashed * o * (1 - o)
    parts = (gradient * g * i * (1 - i), gradient * cell * f * (1 - f), gradient * i * (1 - g * g), for_o)
    gates = torch.cat(parts, 1)
    return gates, gradient * f, gates.sum(0) if has_bias else None


# The processor has no such operations.
FUSED_CELLS: dict[str, Callable[..., Any]] = {
    "aten._thnn_fused_gru_cell.default": _gru_cell,
    "aten._thnn_fused_gru_cell_backward.default": _gru_cell_backward,
    "aten._thnn_fused_lstm_cell.default": _lstm_cell,
    "aten._thnn_fused_lstm_cell_backward_impl.default": _lstm_cell_backward,
}


def _made_here(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return ``torch.tensor`` or its like for all devices: of a new one theirs makes none, or one without a shape."""

    @functools.wraps(make)
    def factory(values: Any, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        if device is None or torch.device(device).type != NAME:
            return make(values, *args, device=device, **kwargs)
        return make(values, *args, **kwargs).to(device)

    return factory


def _dense(embed: Callable[..., Any], position: int) -> Callable[..., Any]:
    """Return ``torch.embedding`` or ``torch.embedding_bag`` without sparse gradients, which this device cannot hold.

    Args:
        position: of the argument ``sparse``.
    """

    @functools.wraps(embed)
    def looked_up(weight: Tensor, *args: Any) -> Any:
        if isinstance(weight, PretendTensor):
            args = (*args[: position - 1], False, *args[position:])
        return embed(weight, *args)

    return looked_up


def _keeping_ties(apply: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """Return what moves a module, so that a table that two modules share stays one table, as on a GPU."""

    @functools.wraps(apply)
    def moved(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        owners: dict[int, list[tuple[dict[str, Any], str]]] = {}
        for part in module.modules():
            for name, parameter in part._parameters.items():
                owners.setdefault(id(parameter), []).append((part._parameters, name))
        apply(module, *args, **kwargs)
        for (first, name), *others in owners.values():
            for other, its_name in others:
                other[its_name] = first[name]
        return module

    return moved


class _Stream:
    """The only stream: each operation has ended before the next one begins."""

    def wait_stream(self, other: _Stream) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""


@functools.cache
def register() -> None:
    """Make the device known to PyTorch."""
    global _fallback
    _setup_privateuseone_for_python_backend(NAME)
    module, stream = torch.pretend, _Stream()  # type: ignore[attr-defined]
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    module.current_stream, module.stream = lambda: stream, contextlib.nullcontext
    torch.embedding, torch.embedding_bag = _dense(torch.embedding, 4), _dense(torch.embedding_bag, 5)
    nn.Module._apply = _keeping_ties(nn.Module._apply)  # type: ignore[method-assign]
    # Operations that make a tensor have none among their arguments, so the class above does not see them.
    _fallback = torch.library.Library("_", "IMPL")
    _fallback.fallback(lambda function, *args, **kwargs: run(function, args, kwargs), "PrivateUse1")
    # The context ``with torch.device(...)`` must know the true ones: it collects them when it is first used.
    _device_constructors()
    for name in ("tensor", "as_tensor", "arange", "eye"):
        setattr(torch, name, _made_here(getattr(torch, name)))
