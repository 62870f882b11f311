"""Where and how a run takes place: device, seed, batches as arrays."""

from __future__ import annotations

import random

import mxnet
import numpy as np
from mxnet import Context, gluon, nd

from d2lbert.data.batching import Batch
from d2lbert.outputs import Rows


def best_device() -> Context:
    """Return the GPU if there is one that MXNet can use, else the processor."""
    return mxnet.gpu() if mxnet.context.num_gpus() else mxnet.cpu()


def place(model: gluon.Block, device: Context | None = None) -> Context:
    """Move a model to a device, and return the device; None leaves the model where it is."""
    parameters = list(model.collect_params().values())
    for parameter in parameters if device is not None else ():
        parameter.reset_ctx(device)
    return parameters[0].list_ctx()[0] if parameters else mxnet.cpu()


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and MXNet."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    mxnet.random.seed(seed % 2**31)


def seed_step(seed: int, step: int) -> None:
    """Seed MXNet for one step of a run.

    MXNet does not give out the state of its generators. With a seed for every step a run that is resumed draws the same
    numbers as one that never stopped.

    Args:
        seed: of the run.
        step: how many steps were before.
    """
    mxnet.random.seed(int(np.random.SeedSequence([seed, step]).generate_state(1)[0] % 2**31))


def to_tensors(batch: Batch, device: Context | None = None) -> Rows[nd.NDArray]:
    """Return the arrays of a batch on a device, for :meth:`d2lbert.mxnet.BertModel.forward`.

    A padded batch needs only the mask; a packed one needs positions, sequence numbers and starts.
    """
    names = ["token_ids", "segment_ids"]
    names += ["position_ids", "sequence_ids", "starts"] if batch.packed else ["mask"]
    return Rows(**{name: nd.array(getattr(batch, name), ctx=device, dtype="int32") for name in names})
