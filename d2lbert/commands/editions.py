"""What the commands need of an edition: its heads, its loops, and how it loads a model.

A framework is imported when it is first used, so that a mistake on the command line is reported at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

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


@dataclass(frozen=True)
class Edition:
    """An edition as the commands see it. A folder that one has written is read by both.

    Fields:
        name: of its package: ``torch`` is :mod:`d2lbert.torch`. The modules in it have the same names in both.
        load: returns a fine-tuned model on the best device, and its tokenizer; from its folder or name and its class.
    """

    name: str
    load: Callable[[str, Any], tuple[Any, Tokenizer]]

    def _module(self, name: str) -> ModuleType:
        """Import a module of this edition, such as ``training.evaluation``."""
        return import_module(f"d2lbert.{self.name}.{name}")

    def head_of(self, task: str) -> Any:
        """Return the model class that a task trains."""
        return getattr(self._module("heads"), named_task(task).head)

    def seed(self, seed: int) -> None:
        """Seed all random generators."""
        self._module("runtime").seed_everything(seed)

    def load_trained(self, task: str, model: str) -> tuple[Any, Tokenizer]:
        """Load the fine-tuned model of a task, and its tokenizer, onto the best device.

        Raises:
            UserError: there is no such folder, or it holds no model of the task, or none that this edition computes.
        """
        return self.load(model, self.head_of(task))

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
        fine_tune = self._module("training.finetuning").fine_tune
        history: History = fine_tune(
            model, task, tokenizer, *examples, settings, checkpoint=checkpoint, stopped=stopped
        )
        return history

    def evaluate(
        self, model: Any, task: Task, tokenizer: Tokenizer, examples: Sequence[Any], max_length: int
    ) -> Scored:
        """Return the scores of a model, and its prediction for each example."""
        evaluate = self._module("training.evaluation").evaluate
        scored: Scored = evaluate(model, task, tokenizer, examples, max_length)
        return scored

    def predict(
        self, model: Any, task: Task, tokenizer: Tokenizer, examples: Sequence[Any], max_length: int
    ) -> list[dict[str, Any]]:
        """Return the model's prediction for each example."""
        predict = self._module("training.evaluation").predict
        predictions: list[dict[str, Any]] = predict(model, task, tokenizer, examples, max_length)
        return predictions


def _load_torch(model: str, head: Any) -> tuple[Any, Tokenizer]:
    """Load a model of PyTorch, or one that was exported to ONNX."""
    from d2lbert.deploy import exported
    from d2lbert.torch.runtime import best_device

    trained, tokenizer = exported.load_trained(model, head)
    return trained.to(best_device()), tokenizer


def _load_mxnet(model: str, head: Any) -> tuple[Any, Tokenizer]:
    """Load a model of MXNet: a BERT, in float32, or one that was exported for MXNet."""
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


_EDITIONS = {"torch": Edition("torch", _load_torch), "mxnet": Edition("mxnet", _load_mxnet)}


def named_edition(name: str) -> Edition:
    """Return an edition by its name.

    Raises:
        UserError: there is no such edition.
    """
    if name not in _EDITIONS:
        raise unknown_name("edition", name, _EDITIONS)
    return _EDITIONS[name]
