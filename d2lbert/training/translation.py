"""What the loops of both editions share that train a model from one sequence to another: settings, records, checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from d2lbert.config.settings import Settings, setting
from d2lbert.data.translation import EncodedPair
from d2lbert.errors import UserError
from d2lbert.storage import checkpoints
from d2lbert.storage.files import writable_folder
from d2lbert.training.inputs import check_finite
from d2lbert.training.run import fingerprint_of_examples
from d2lbert.training.schedules import inverse_square_root_decay, linear_warmup_and_decay

CHECKPOINTS = "checkpoints"  # their folder, in that of the run
EVALUATION_TOKENS = 4096  # positions of the targets in a batch that is only scored
# Of Adam, in the paper of the Transformer (Vaswani et al. 2017, section 5.3).
BETAS, EPSILON = (0.9, 0.98), 1e-9


@dataclass(frozen=True)
class SequenceTraining(Settings):
    """Settings of a run."""

    kind: ClassVar[str] = "training"

    steps: int = setting(1000, "steps of the optimiser", above=0)
    tokens: int = setting(2048, "positions of the targets in a batch, padding included", above=0)
    learning_rate: float = setting(1e-3, "highest learning rate, at the end of the warm-up", above=0)
    warmup_steps: int = setting(200, "steps in which the rate rises", above=0)
    label_smoothing: float = setting(
        0.1, "share of the probability that the loss asks to be spread over the vocabulary", at_least=0, below=1
    )
    clip: float = setting(1.0, "largest norm of the gradient", above=0)
    evaluate_every: int = setting(250, "steps between two looks at the dev set, each with a checkpoint", above=0)
    seed: int = setting(0, "of the order and of dropout", at_least=0, below=2**32)
    decay: str = setting(
        "root",
        "how the rate falls after the warm-up: with the square root of the steps, or linearly to 0 at the last one",
        one_of=("root", "linear"),
    )

    def rate_factor(self, step: int) -> float:
        """Return the factor on the learning rate at a step, counted from 0."""
        if self.decay == "linear":
            return linear_warmup_and_decay(step, self.warmup_steps, self.steps)
        return inverse_square_root_decay(step, self.warmup_steps)


@dataclass
class SequenceRun:
    """The state of a run, whatever computes it.

    Fields:
        step, tokens, seconds: so far.
        history: the records.
        best: the best weights, by name, as the edition keeps them.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)

    def mean_loss(self, losses: float) -> float:
        """Return the mean loss of the steps since the last record, given their sum.

        Raises:
            UserError: it is not finite.
        """
        before = int(self.history[-1]["step"]) if self.history else 0
        loss = losses / (self.step - before)
        check_finite(loss, self.step)
        return loss

    def add_record(self, loss: float, dev_loss: float) -> bool:
        """Add a record to the history, and return whether its dev loss is lower than all before."""
        best = not self.history or dev_loss < min(record["dev_loss"] for record in self.history)
        times = {"step": self.step, "tokens": self.tokens, "seconds": self.seconds}
        self.history.append({**times, "loss": loss, "dev_loss": dev_loss})
        return best

    @property
    def last_is_best(self) -> bool:
        """Whether no record has a lower dev loss than the last one."""
        return self.history[-1]["dev_loss"] == min(record["dev_loss"] for record in self.history)


def check_folder(folder: str | Path | None, resume: bool) -> Path | None:
    """Return the folder of a run, which can be written; None if there is none.

    Raises:
        UserError: a run shall be resumed, but no folder is given; or one shall begin where another has its checkpoints.
    """
    if resume and folder is None:
        raise UserError("to resume needs the folder of the run; give the one with the checkpoint")
    path = writable_folder(folder) if folder is not None else None
    if path is not None and not resume and checkpoints.begun(path / CHECKPOINTS):
        raise UserError(f"{path} holds the checkpoints of a run: resume it, or choose another folder")
    return path


def no_checkpoint(folder: Path) -> UserError:
    """Return the error for a run that cannot be resumed, since it has saved nothing."""
    return UserError(f"there is no checkpoint in {folder}: start the run without resume")


def run_identity(
    model: Any, settings: SequenceTraining, train: Sequence[EncodedPair], dev: Sequence[EncodedPair]
) -> dict[str, Any]:
    """Return what must be the same when a run is resumed: the model's sizes, the settings, the pairs.

    The number of steps may change, save where the learning rate falls towards the last one.
    """
    values = {name: value for name, value in asdict(settings).items() if name != "steps" or settings.decay == "linear"}
    pairs = {"train": fingerprint_of_examples(train), "dev": fingerprint_of_examples(dev)}
    return {**model.config.to_dict(), **values, **pairs}
