"""Settings of the training loops that the command line starts. They import no framework: ``--help`` needs none."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from d2lbert.config.settings import Settings, setting

PRECISIONS = ("auto", "float32", "bfloat16")
_PRECISION = "of the forward pass: auto (bfloat16 on an NVIDIA GPU, else float32), float32 or bfloat16"


@dataclass(frozen=True)
class Training(Settings):
    """Settings of a fine-tuning run. The defaults suit a 6-layer encoder and some thousand sentences."""

    kind: ClassVar[str] = "training"

    epochs: int = setting(3, "passes over the training examples", above=0)
    batch_size: int = setting(32, "texts for one step", above=0)
    learning_rate: float = setting(1e-4, "highest learning rate, after the warm-up", above=0)
    warmup: float = setting(0.1, "share of all steps during which the learning rate rises", at_least=0, at_most=1)
    weight_decay: float = setting(0.01, "of matrices; biases and LayerNorm have none", at_least=0)
    clip: float = setting(1.0, "largest norm of the gradient", above=0)
    max_length: int = setting(128, "longest text in tokens, [CLS] and [SEP] included; the rest is cut off", at_least=3)
    seed: int = setting(0, "of the order, of dropout and of the head's first weights", at_least=0, below=2**32)
    packed: bool = setting(True, "several texts in a row instead of padding")
    layer_decay: float = setting(
        1.0, "factor on the learning rate from each layer to the one below; 1: the same everywhere", above=0, at_most=1
    )
    patience: int = setting(0, "stop after so many epochs without a better score on dev; 0: never", at_least=0)
    best_by: str = setting(
        "", "score that chooses the best epoch, such as f1; by default the task's first; epoch: keep the last one"
    )
    balanced: bool = setting(False, "let rare labels count more: inversely to their frequency in the training examples")
    precision: str = setting("auto", _PRECISION, one_of=PRECISIONS)
    bias_correction: bool = setting(True, "of Adam's moments; without it the first steps are several times as long")


# A run needs some two hundred steps, however few its examples are; the defaults give them from 2,000 examples on.
_STEPS, _MOST_EPOCHS = 225, 20
_MANY = 2000
_BATCHES = ((100, 4), (400, 8), (1000, 16))  # below so many examples, batches of so many
# An encoder of few features learns nothing at the rate of a larger one.
_NARROW, _RATE_OF_NARROW = 256, 5e-4
_DEFAULTS = Training()


def suited_settings(examples: int, hidden_size: int = 384, settings: Training = _DEFAULTS) -> Training:
    """Return settings with the epochs, the batch size and the learning rate that suit a data set and an encoder.

    From 2,000 examples on, epochs and batch size are the defaults. Below, batches are smaller and epochs more, so that
    the weights are updated some two hundred times. The rate is the default, or 5e-4 for an encoder narrower than 256.
    ``results/finetuning/small_sets.json`` measures both against the defaults.

    Args:
        examples: the number of training examples.
        hidden_size: of the encoder.
        settings: all other settings.
    """
    batch_size, epochs = _DEFAULTS.batch_size, _DEFAULTS.epochs
    if examples < _MANY:
        batch_size = next((size for limit, size in _BATCHES if examples < limit), batch_size)
        steps = -(-max(1, examples) // batch_size)  # of an epoch
        epochs = min(_MOST_EPOCHS, max(epochs, round(_STEPS / steps)))
    rate = _RATE_OF_NARROW if hidden_size < _NARROW else _DEFAULTS.learning_rate
    return dataclasses.replace(settings, epochs=epochs, batch_size=batch_size, learning_rate=rate)


@dataclass(frozen=True)
class Pretraining(Settings):
    """Settings of a pretraining run. The defaults suit small models; BERT-base took 1e-4 and a million steps."""

    kind: ClassVar[str] = "pretraining"

    steps: int = setting(1000, "updates of the weights", above=0)
    accumulation: int = setting(1, "batches that make one step; many processes share them", above=0)
    learning_rate: float = setting(5e-4, "highest learning rate, after the warm-up", above=0)
    warmup: float = setting(0.05, "share of all steps during which the learning rate rises", at_least=0, at_most=1)
    weight_decay: float = setting(0.01, "of matrices; biases and LayerNorm have none", at_least=0)
    clip: float = setting(1.0, "largest norm of the gradient", above=0)
    seed: int = setting(0, "of the first weights and of dropout", at_least=0, below=2**32)
    precision: str = setting("auto", _PRECISION, one_of=PRECISIONS)
    log_every: int = setting(10, "steps between two lines of the log", above=0)
    validate_every: int = setting(500, "steps between two looks at held-out documents", above=0)
    save_every: int = setting(500, "steps between two checkpoints", above=0)
    validation_batches: int = setting(50, "batches of held-out documents, at most; the same ones each time", above=0)
    keep: int = setting(3, "how many checkpoints stay", above=0)
    tensorboard: bool = setting(False, "write the log for TensorBoard, too")
    compiled: bool = setting(
        False, "let torch.compile make kernels for the blocks; takes a minute or more, and pays on a GPU"
    )
