"""The models of a server: each a head with its task, all adapters of one encoder beside one copy of it."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from d2lbert.data.batching import Batch
from d2lbert.deploy.exported import ExportedModel, load_trained
from d2lbert.deploy.server.threads import in_passing
from d2lbert.errors import UserError, unknown_name
from d2lbert.models import get_model, tokenizer_of
from d2lbert.tasks.base import Input, Task, longest_input
from d2lbert.tasks.table import NamedTask, named_task
from d2lbert.text import AnyEncoding, Tokenizer
from d2lbert.torch.adapters import load_adapters
from d2lbert.torch.adapters.shared import SharedEncoder
from d2lbert.torch.heads import BertWithHead, head_class
from d2lbert.torch.runtime import best_device, to_tensors
from d2lbert.torch.training.evaluation import by_text
from d2lbert.training.inputs import check_lengths, check_outputs, collate
from d2lbert.weights.adapters import is_adapter_folder
from d2lbert.weights.folder import CONFIG_FILE
from d2lbert.zoo.folders import encoder_folder, find_model, local_folder, locate

# What a request may say about a text. "question" and "context" are other names for what question answering reads.
FIELDS = ("text", "pair", "choices", "question", "context", "model")
_TASKS = {
    "BertForSequenceClassification": ("classification", "pair"),
    "BertForTokenClassification": ("tagging",),
    "BertForQuestionAnswering": ("question_answering",),
    "BertForMultipleChoice": ("multiple_choice",),
}
# What a prediction is given together with; the rest of an example is what the client sent and knows.
_WITH_ANSWER = ("words",)


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model under its name.

    Fields:
        name: under which requests ask for it.
        source: the folder or the name in the zoo that it was loaded from.
        tasks: what it can do: one task, or classification and pair where its folder does not say which.
    """

    name: str
    source: str
    tasks: tuple[str, ...]
    head: BertWithHead | ExportedModel
    encoder: SharedEncoder | ExportedEncoder
    tokenizer: Tokenizer


@dataclass(frozen=True, eq=False)
class Prepared:
    """A text that is ready to be computed, with the model that it is for.

    Fields:
        warning: what the client should know of the answer; "" where there is nothing.
    """

    model: ServedModel
    task: Task
    examples: list[Any]
    inputs: list[Input]
    warning: str = ""

    @property
    def encodings(self) -> list[AnyEncoding]:
        """What the model reads: its windows or choices where it has several."""
        return [encoding for item in self.inputs for encoding in item.encodings]

    @property
    def tokens(self) -> int:
        """Its size."""
        return sum(map(len, self.encodings))

    def result(self, logits: Sequence[np.ndarray]) -> dict[str, Any]:
        """Return the answer, from the logits of all its encodings.

        Raises:
            UserError: an output is NaN or infinite.
        """
        remaining = iter(logits)
        outputs = [np.concatenate([next(remaining) for _ in item.encodings]) for item in self.inputs]
        check_outputs(self.inputs, outputs)
        (prediction,) = self.task.predictions(self.examples, self.inputs, outputs)
        beside = {name: getattr(self.examples[0], name) for name in _WITH_ANSWER if hasattr(self.examples[0], name)}
        return {**beside, **prediction, **({"warning": self.warning} if self.warning else {})}

    def parts(self, most: int) -> list[Part]:
        """Return its encodings in parts of at most so many tokens; an encoding that is larger is a part of its own."""
        parts: list[Part] = []
        for encoding in self.encodings:
            if parts and parts[-1].tokens + len(encoding) <= most:
                parts[-1].encodings.append(encoding)
            else:
                parts.append(Part(self.model, [encoding]))
        return parts

    def joined(self, results: Sequence[Sequence[np.ndarray]]) -> dict[str, Any]:
        """Return the answer, from the results of all its parts.

        Raises:
            UserError: an output is NaN or infinite.
        """
        return self.result([logits for part in results for logits in part])


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the encodings of a text that is too large for one batch, with the model that they are for."""

    model: ServedModel
    encodings: list[AnyEncoding]

    @property
    def tokens(self) -> int:
        """Its size."""
        return sum(map(len, self.encodings))

    def result(self, logits: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the logits as they are: the answer is made when those of all parts are known."""
        return list(logits)


@dataclass(frozen=True, eq=False)
class Asked:
    """A text of a request that has been checked and not yet been encoded.

    Fields:
        length: the most tokens of an encoding.
    """

    model: ServedModel
    task: Task
    examples: list[Any]
    length: int

    def read(self, examples: Sequence[Any]) -> tuple[list[Input], bool]:
        """Return the inputs of examples, and whether a text of theirs had to be cut.

        Raises:
            UserError: a text holds nothing that the tokenizer keeps, or is longer than the model takes.
        """
        with warnings.catch_warnings(record=True) as told:  # a task warns where it cuts a text
            warnings.simplefilter("always")
            inputs = self.task.inputs(examples, self.model.tokenizer, self.length)
        check_lengths(self.model.head, inputs)
        return inputs, bool(told)

    def prepared(self, inputs: list[Input], cut: bool) -> Prepared:
        """Return the text with what was read of it."""
        warning = f"the text was cut after {self.length} tokens; what follows was not read" if cut else ""
        return Prepared(self.model, self.task, self.examples, inputs, warning)


class Models:
    """All models of a server.

    Args:
        sources: name -> folder, or name in the zoo such as ``minilm-sst2``.

    Raises:
        UserError: one of them cannot be loaded.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._encoders: dict[Path, SharedEncoder] = {}
        self._models: dict[str, ServedModel] = {}
        self._changing = threading.Lock()
        uses = Counter(_encoder_of_adapters(source) for source in sources.values())
        # Adapters that share their encoder with no others are merged into it: a sixth more texts a second.
        self._merged = {base for base, number in uses.items() if number == 1}
        for name, source in sources.items():
            self._models[name] = in_passing(self._load, name, source)

    @property
    def names(self) -> list[str]:
        """The names of all models, in the order in which they were given."""
        return list(self._models)

    def find(self, name: str | None) -> ServedModel:
        """Return a model by its name; None is the only one.

        Raises:
            UserError: there is no such model, or there are several and none was named.
        """
        if name is None and len(self._models) != 1:
            what = f"several models are served: name one as model: {', '.join(self._models)}"
            raise UserError(what if self._models else "no model is loaded")
        if name is None:
            return next(iter(self._models.values()))
        if name not in self._models:
            raise unknown_name("model", name, self._models)
        return self._models[name]

    def reload(self, name: str) -> None:
        """Load a model from its source anew. What has been prepared for the old one is still computed by it.

        Raises:
            UserError: there is no such model, or it cannot be loaded; the old one stays.
        """
        with self._changing:
            self._models[name] = in_passing(self._load, name, self.find(name).source)

    def add(self, name: str, source: str) -> None:
        """Load one more model.

        Raises:
            UserError: there is one of this name, or it cannot be loaded.
        """
        with self._changing:
            if name in self._models:
                raise UserError(f"the model {name} is loaded already: remove it first")
            self._models[name] = in_passing(self._load, name, source)

    def remove(self, name: str) -> None:
        """Let a model go, and its encoder with the last model of it. What has been prepared for it is still computed.

        Raises:
            UserError: there is no such model.
        """
        with self._changing:
            del self._models[self.find(name).name]
            used = [model.encoder for model in self._models.values()]
            self._encoders = {base: encoder for base, encoder in self._encoders.items() if encoder in used}

    def check(self, content: Mapping[str, Any], model: str | None = None) -> Asked:
        """Check a text of a request and find its model.

        Args:
            content: with some of ``FIELDS``.
            model: used where the content names none.

        Raises:
            UserError: a field is unknown, missing or of another type, a text is empty, or the model is unknown.
        """
        _check_fields(content)
        served = self.find(content.get("model", model))
        text, seconds = _texts(content)
        name, named = _task_of(served, seconds)
        _check_seconds(name, named, seconds)
        examples = named.of_texts([text], seconds, served.head.labels)
        task = named.of_model(served.head.labels, getattr(served.head, "null_threshold", None))
        return Asked(served, task, examples, longest_input(served.head, named.max_length))

    def prepare(self, content: Mapping[str, Any], model: str | None = None) -> Prepared:
        """Check a text of a request and encode it.

        Args:
            content, model: as for :meth:`check`.

        Raises:
            UserError: as from :meth:`check`, or a text holds nothing that the tokenizer keeps.
        """
        asked = self.check(content, model)
        return asked.prepared(*asked.read(asked.examples))

    def example(self, name: str) -> Prepared:
        """Return a text that the model can answer, to try it.

        Raises:
            UserError: there is no such model.
        """
        beside: dict[str, Any] = ({}, {"pair": "A second text."}, {"choices": ["One.", "Another."]})[
            named_task(self.find(name).tasks[0]).seconds
        ]
        return self.prepare({"text": "A text.", "model": name, **beside})

    def _load(self, name: str, source: str) -> ServedModel:
        folder = locate(source)
        kind = head_class(folder / CONFIG_FILE)
        base = _encoder_of_adapters(source)
        if base in self._merged:
            base = None
        if base is None:
            head, tokenizer = load_trained(source, kind)
        else:
            head = load_adapters(kind, folder)
            tokenizer = tokenizer_of(folder, head.config)
        tasks = _tasks_of(source, kind, head.labels)
        if isinstance(head, ExportedModel):
            return ServedModel(name, source, tasks, head, ExportedEncoder(head), tokenizer)
        encoder = SharedEncoder(head.bert) if base is None else self._shared(base)
        encoder.bert.to(best_device())
        encoder.add(head.to(best_device()))
        return ServedModel(name, source, tasks, head, encoder, tokenizer)

    def _shared(self, base: Path) -> SharedEncoder:
        """Return the one copy in memory of the encoder in a folder."""
        if base not in self._encoders:
            self._encoders[base] = SharedEncoder(get_model(str(base))[0])
        return self._encoders[base]


class ExportedEncoder:
    """An exported model in the place of an encoder. It shares no batch with other models.

    Args:
        model: with its own head.
    """

    def __init__(self, model: ExportedModel) -> None:
        self.model = model
        self.packed = model.packed

    def logits(self, batch: Batch, heads: Sequence[Any]) -> list[np.ndarray]:
        """Return the logits of each text of a batch; ``heads`` are all the model's own."""
        return by_text(self.model(to_tensors(batch)), batch)


def predict(prepared: Sequence[Prepared | Part]) -> list[Any]:
    """Return the answer to each text, and the logits of each part of one. All of one encoder are computed together.

    Raises:
        UserError: an output is NaN or infinite.
    """
    answers: list[Any] = [{}] * len(prepared)
    for encoder in dict.fromkeys(one.model.encoder for one in prepared):
        own = [index for index, one in enumerate(prepared) if one.model.encoder is encoder]
        for index, answer in zip(own, _predict_together(encoder, [prepared[i] for i in own]), strict=True):
            answers[index] = answer
    return answers


def _predict_together(encoder: SharedEncoder | ExportedEncoder, prepared: Sequence[Prepared | Part]) -> list[Any]:
    encodings = [one.encodings for one in prepared]
    heads: list[Any] = [one.model.head for one in prepared for _ in one.encodings]
    batch = collate([one for own in encodings for one in own], prepared[0].model.tokenizer, encoder.packed)
    logits = iter(encoder.logits(batch, heads))
    return [one.result([next(logits) for _ in own]) for one, own in zip(prepared, encodings, strict=True)]


def _encoder_of_adapters(source: str) -> Path | None:
    """Return the folder of the encoder that a model's adapters belong to; None where it has none."""
    folder = locate(source)
    return encoder_folder(folder).resolve() if is_adapter_folder(folder) else None


def _tasks_of(source: str, kind: type[BertWithHead], labels: Sequence[str]) -> tuple[str, ...]:
    """Return what a model can do: as the zoo says, or what its head allows. One output for a text is a similarity."""
    known = "" if local_folder(source) else find_model(source).task
    if known:
        return (known,)
    tasks = _TASKS[kind.__name__]
    return ("pair",) if len(labels) == 1 and "pair" in tasks else tasks


def _check_fields(content: Mapping[str, Any]) -> None:
    for name, value in content.items():
        if name not in FIELDS:
            raise unknown_name("field", str(name), FIELDS)
        if name == "choices":
            if not isinstance(value, list) or not all(isinstance(choice, str) for choice in value):
                raise UserError("choices must be a list of texts")
        elif not isinstance(value, str):
            raise UserError(f"{name} must be a text")


def _texts(content: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the text, and what stands beside it: a second text, a question, or choices.

    Raises:
        UserError: a text is missing, empty or given twice.
    """
    given = set(content) - {"model"}
    allowed = ({"text"}, {"text", "pair"}, {"text", "choices"}, {"question", "context"})
    if given not in allowed:
        names = "; ".join(" and ".join(sorted(names, reverse=True)) for names in allowed)
        raise UserError(f"give one of: {names}; not {' and '.join(sorted(given)) or 'nothing'}")
    text = content.get("text", content.get("context", ""))
    seconds = list(content.get("choices", []))
    seconds += [content[name] for name in ("pair", "question") if name in content]
    if not all(one.strip() for one in (text, *seconds)):
        raise UserError("a text is empty: give at least one word")
    return text, seconds


def _task_of(served: ServedModel, seconds: Sequence[str]) -> tuple[str, NamedTask]:
    name = "pair" if "pair" in served.tasks and (seconds or len(served.tasks) == 1) else served.tasks[0]
    return name, named_task(name)


def _check_seconds(name: str, named: NamedTask, seconds: Sequence[str]) -> None:
    needs = ("text alone", "text and pair, or question and context", "text and two or more choices")[named.seconds]
    if not (len(seconds) == named.seconds or (named.seconds == 2 and len(seconds) >= 2)):
        raise UserError(f"the model is for the task {name}, which reads {needs}")
