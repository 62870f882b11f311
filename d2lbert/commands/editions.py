"""What the commands need of an edition: its heads, its loops, and how it loads a model.

A framework is imported when it is first used, so that a mistake on the command line is reported at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from d2lbert.deploy.formats import SYMBOL_FILE
from d2lbert.errors import UserError, unknown_name
from d2lbert.tasks.table import named_task

if TYPE_CHECKING:
    from d2lbert.config.training import Training
    from d2lbert.tasks.base import Task
    from d2lbert.text import Tokenizer
    from d2lbert.training.run import History

EditionName = Annotated[
    str, typer.Option("--edition", help="what computes: torch, or mxnet for Apache MXNet 1.9.1; folders fit both")
]
Scored = tuple[dict[str, float], list[dict[str, Any]]]


class Edition(Protocol):
    """An edition as the commands see it. A folder that one has written is read by both."""

    name: str

    def head_of(self, task: str) -> Any:
        """Return the model class that a task trains."""

    def seed(self, seed: int) -> None:
        """Seed all random generators."""

    def load_trained(self, task: str, model: str) -> tuple[Any, Tokenizer]:
        """Load the fine-tuned model of a task, and its tokenizer, onto the best device.

        Raises:
            UserError: there is no such folder, or it holds no model of the task, or none that this edition computes.
        """

    def fine_tune(
        self,
        model: Any,
        task: Task,
        tokenizer: Tokenizer,
        examples: tuple[Sequence[Any], Sequence[Any]],
        settings: Training,
        checkpoint: Path | None,
        stopped: Callable[[], bool],
    ) -> History:
        """Train a model on the first examples, and keep the epoch that is best on the second."""

    def evaluate(
        self, model: Any, task: Task, tokenizer: Tokenizer, examples: Sequence[Any], max_length: int
    ) -> Scored:
        """Return the scores of a model, and its prediction for each example."""

    def predict(
        self, model: Any, task: Task, tokenizer: Tokenizer, examples: Sequence[Any], max_length: int
    ) -> list[dict[str, Any]]:
        """Return the model's prediction for each example."""


class TorchEdition(Edition):
    """PyTorch; it also runs models that were exported to ONNX."""

    name = "torch"

    def head_of(self, task: str) -> Any:
        from d2lbert.torch import heads

        return getattr(heads, named_task(task).head)

    def seed(self, seed: int) -> None:
        from d2lbert.torch.runtime import seed_everything

        seed_everything(seed)

    def load_trained(self, task: str, model: str) -> tuple[Any, Tokenizer]:
        from d2lbert.deploy import exported
        from d2lbert.torch.runtime import best_device

        trained, tokenizer = exported.load_trained(model, self.head_of(task))
        return trained.to(best_device()), tokenizer

    def fine_tune(
        self,
        model: Any,
        task: Task,
        tokenizer: Tokenizer,
        examples: tuple[Sequence[Any], Sequence[Any]],
        settings: Training,
        checkpoint: Path | None,
        stopped: Callable[[], bool],
    ) -> History:
        from d2lbert.torch.training.finetuning import fine_tune

        return fine_tune(model, task, tokenizer, *examples, settings, checkpoint=checkpoint, stopped=stopped)

    def evaluate(
        self, model: Any, task: Task, tokenizer: Tokenizer, examples: Sequence[Any], max_length: int
    ) -> Scored:
        from d2lbert.torch.training.evaluation import evaluate

        return evaluate(model, task, tokenizer, examples, max_length)

    def predict(
        self, model: Any, task: Task, tokenizer: Tokenizer, examples: Sequence[Any], max_length: int
    ) -> list[dict[str, Any]]:
        from d2lbert.torch.training.evaluation import predict

        return predict(model, task, tokenizer, examples, max_length)


class MxnetEdition(Edition):
    """Apache MXNet 1.9.1: BERT alone; it also runs models that were exported for it."""

    name = "mxnet"

    def head_of(self, task: str) -> Any:
        from d2lbert.mxnet import heads

        return getattr(heads, named_task(task).head)

    def seed(self, seed: int) -> None:
        from d2lbert.mxnet.runtime import seed_everything

        seed_everything(seed)

    def load_trained(self, task: str, model: str) -> tuple[Any, Tokenizer]:
        head = self.head_of(task)
        from d2lbert.models import tokenizer_of
        from d2lbert.mxnet.runtime import best_device, place
        from d2lbert.weights.folder import ONNX_FILE
        from d2lbert.zoo.folders import locate

        folder = locate(model)
        if (folder / ONNX_FILE).is_file():
            raise UserError(f"{folder} is a graph of ONNX, which the mxnet edition does not run: leave --edition out")
        if (folder / SYMBOL_FILE).is_file():
            from d2lbert.deploy.symbols import SymbolModel

            exported = SymbolModel(folder, head)
            return exported, tokenizer_of(folder, exported.config)
        trained = head.from_pretrained(folder)
        place(trained, best_device())
        return trained, tokenizer_of(folder, trained.config)

    def fine_tune(
        self,
        model: Any,
        task: Task,
        tokenizer: Tokenizer,
        examples: tuple[Sequence[Any], Sequence[Any]],
        settings: Training,
        checkpoint: Path | None,
        stopped: Callable[[], bool],
    ) -> History:
        from d2lbert.mxnet.training.finetuning import fine_tune

        return fine_tune(model, task, tokenizer, *examples, settings, checkpoint=checkpoint, stopped=stopped)

    def evaluate(
        self, model: Any, task: Task, tokenizer: Tokenizer, examples: Sequence[Any], max_length: int
    ) -> Scored:
        from d2lbert.mxnet.training.evaluation import evaluate

        return evaluate(model, task, tokenizer, examples, max_length)

    def predict(
        self, model: Any, task: Task, tokenizer: Tokenizer, examples: Sequence[Any], max_length: int
    ) -> list[dict[str, Any]]:
        from d2lbert.mxnet.training.evaluation import predict

        return predict(model, task, tokenizer, examples, max_length)


_EDITIONS: dict[str, type[Edition]] = {"torch": TorchEdition, "mxnet": MxnetEdition}


def named_edition(name: str) -> Edition:
    """Return an edition by its name.

    Raises:
        UserError: there is no such edition.
    """
    if name not in _EDITIONS:
        raise unknown_name("edition", name, _EDITIONS)
    return _EDITIONS[name]()
