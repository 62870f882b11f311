"""The model card that ``finetune`` writes: ``README.md`` in the layout of the hub (Mitchell et al. 2019).

Everything in it is known from the run, the manifest of the data sets or the table of models. What is not known is said
to be unknown, so that whoever shares the model can fill it in.
"""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from d2lbert import data
from d2lbert.config.training import Training
from d2lbert.data.manifest import DataSet
from d2lbert.data.readers.tables import Columns
from d2lbert.errors import UserError
from d2lbert.zoo.folders import find_model, is_other_repository, local_folder
from d2lbert.zoo.table import ModelEntry

CARD_FILE = "README.md"
LOGGED = ("epoch", "loss", "seconds", "tokens_per_second")  # of a record of the history; the others are scores
# Task -> the hub's name for it, and what the model does.
_TASKS = {
    "classification": ("text-classification", "tells the class of a text"),
    "pair": ("text-classification", "judges two texts"),
    "tagging": ("token-classification", "gives each word of a text a label"),
    "question_answering": ("question-answering", "finds the answer to a question in a text"),
    "multiple_choice": ("multiple-choice", "chooses among several texts"),
}
_MANY_LABELS = 30
_FIELDS = {"learning_rate": "--lr"}  # options with other names than their settings


@dataclasses.dataclass(frozen=True)
class Trained:
    """A finished run of fine-tuning.

    Fields:
        task: its name on the command line.
        model, train, dev: as the user named them; ``dev`` may be a share of ``train``.
        settings: all of them, those chosen by the program too.
        sizes: the number of training and of dev examples.
        labels: the labels of the task; empty where it has none.
        best: the record of the epoch that the model keeps.
        options: further options that the user gave, as typed.
    """

    task: str
    model: str
    train: str
    dev: str
    settings: Training
    sizes: tuple[int, int]
    labels: Sequence[str]
    best: dict[str, float]
    options: Sequence[str] = ()


def model_card(run: Trained, title: str) -> str:
    """Return the card of a fine-tuned model: metadata for the hub as YAML, then what a reader should know.

    Args:
        title: the model's name, such as that of its folder.
    """
    entry, data_set = _entry(run.model), _data_set(run.train)
    parts = [
        f"---\n{_metadata(run, entry, data_set, title)}\n---",
        f"# {title}",
        f"A fine-tuned BERT: it {_TASKS[run.task][1]}. `transformers` and `d2lbert` load this folder.",
        _labels(run.labels),
        f"## Base\n\n{_base(run.model, entry)}",
        f"## Data\n\n{_data(run, data_set)}",
        f"## Scores\n\n{_scores(run)}",
        f"## Training\n\n    {command(run)}\n\n{_versions()}",
        f"## Limits\n\n{_limits(run, entry, data_set)}",
        "## Licence\n\nNone is chosen yet. What is allowed follows from the licences of the base and of the data. "
        "Read them before you share the model, then put `license:` at the top of this file.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def command(run: Trained) -> str:
    """Return the command that trains the model again, the settings that the program chose included."""
    words = ["d2lbert", "finetune", run.task, "--model", run.model, "--train", run.train, "--dev", run.dev]
    for field in dataclasses.fields(Training):
        value = getattr(run.settings, field.name)
        if value == field.default and field.name not in ("epochs", "batch_size", "learning_rate", "max_length", "seed"):
            continue
        option = _FIELDS.get(field.name, f"--{field.name.replace('_', '-')}")
        if isinstance(value, bool):
            words.append(option if value else f"--no-{option.removeprefix('--')}")
        else:
            words += [option, f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join([*words, *run.options, "--out", "OUT"])


def typed_columns(columns: Columns) -> list[str]:
    """Return the options that a user gave for the columns of a table, as typed."""
    named = ((field.name.replace("_", "-"), getattr(columns, field.name)) for field in dataclasses.fields(columns))
    return [word for name, value in named if value for word in (f"--{name}", value)]


def _metadata(run: Trained, entry: ModelEntry | None, data_set: DataSet | None, title: str) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    kind = _TASKS[run.task][0]
    dataset = data_set.name if data_set is not None else Path(run.train).name
    results = [
        EvalResult(
            task_type=kind, dataset_type=dataset, dataset_name=f"{dataset}, dev", metric_type=name, metric_value=value
        )
        for name, value in _shown(run.best).items()
    ]
    card = ModelCardData(
        model_name=title,
        eval_results=results,
        language=None if data_set is None else data_set.language,
        base_model=entry.repository or None if entry is not None else _repository(run.model),
        library_name="transformers",
        pipeline_tag=kind,
        metrics=list(_shown(run.best)),
        tags=["d2lbert"],
    )
    return str(card.to_yaml()).strip()


def _entry(model: str) -> ModelEntry | None:
    """Return the entry of the base in the table of models, if it has one."""
    if local_folder(model) is not None or is_other_repository(model):
        return None
    return find_model(model)


def _repository(model: str) -> str | None:
    return model if local_folder(model) is None else None


def _data_set(train: str) -> DataSet | None:
    return data.info(train) if train in data.names() else None


def _shown(best: dict[str, float]) -> dict[str, float]:
    return {name: round(float(value), 4) for name, value in best.items() if name not in LOGGED}


def _labels(labels: Sequence[str]) -> str:
    if not labels:
        return ""
    shown = ", ".join(f"`{label}`" for label in labels[:_MANY_LABELS])
    more = f" and {len(labels) - _MANY_LABELS:,} more, which `config.json` names" if len(labels) > _MANY_LABELS else ""
    return f"Labels: {shown}{more}."


def _base(model: str, entry: ModelEntry | None) -> str:
    if entry is None:
        return f"`{model}`. Licence: see there; it is not in the table of d2lbert."
    note = f" {entry.note[0].upper()}{entry.note[1:]}." if entry.note else ""
    return f"`{entry.label}`, {entry.citation} in the book's references.{note} Licence: {entry.licence}."


def _data(run: Trained, data_set: DataSet | None) -> str:
    train, dev = run.sizes
    counts = f"{train:,} training examples; {dev:,} of dev chose the epoch"
    if data_set is None:
        return f"`{run.train}`, {counts}. Language and licence: not known to the program; say them here."
    sample = ""
    if _is_sample(run.train):
        sample = (
            " **The real data was not at hand: a small sample written for the book stood in. Do not use this model.**"
        )
    return (
        f"`{data_set.name}`: {data_set.task}; {counts}.{sample} Language: {data_set.language}. "
        f"Licence: {data_set.licence}. Source: {data_set.source}"
    )


def _is_sample(name: str) -> bool:
    try:
        return data.is_sample(name)
    except UserError:
        return False


def _scores(run: Trained) -> str:
    rows = [f"| {name} | {value:.4f} |" for name, value in _shown(run.best).items()]
    table = "\n".join(["| Score on dev | |", "|---|---|", *rows])
    text = f"Epoch {run.best['epoch']:g} of {run.settings.epochs}, on {run.sizes[1]:,} examples"
    accuracy = run.best.get("accuracy")
    if accuracy is not None and run.task != "tagging":
        low, high = _interval(accuracy, run.sizes[1])
        text += f"; so few leave any accuracy from {low:.3f} to {high:.3f} possible (95 % interval, Wilson's formula)"
    return f"{table}\n\n{text}. Dev chose the epoch, so new texts may fare a little worse."


def _interval(share: float, count: int) -> tuple[float, float]:
    """Return between which accuracies, to three decimals, the true one lies in 95 of 100 such cases.

    It is Wilson's interval: unlike a standard error it has a width where all answers are right, or none is.

    Args:
        share: of right answers.
        count: of all answers.
    """
    square = 1.96**2 / count
    centre = share + square / 2
    half = math.sqrt(square * (share * (1 - share) + square / 4))
    low, high = (centre - half) / (1 + square), (centre + half) / (1 + square)
    # Rounded outwards: of a million right answers it does not say that no other can be wrong.
    return max(0.0, math.floor(1000 * low) / 1000), min(1.0, math.ceil(1000 * high) / 1000)


def _limits(run: Trained, entry: ModelEntry | None, data_set: DataSet | None) -> str:
    long = "longer texts are read in windows" if run.task == "question_answering" else "the rest of a text was cut off"
    points = [
        f"It was trained on inputs of at most {run.settings.max_length} tokens; {long}. `d2lbert` reads new texts so, "
        "too, unless `--max-length` says otherwise.",
        "It answers every text, also one unlike those that it was trained on; its probabilities were not calibrated.",
        "Pretrained models repeat prejudices of their texts. Nobody has tested this one for that: test it before it "
        "touches people.",
    ]
    for seen in entry.seen if entry is not None else ():
        points.append(f"The base had already met {seen['source']} ({seen['pairs']:,} pairs): {seen['touches']}.")
    if data_set is not None and data_set.note:
        points.append(f"On the data: {data_set.note}")
    return "\n".join(f"* {point}" for point in points)


def _versions() -> str:
    import torch

    import d2lbert

    return f"d2lbert {d2lbert.__version__}, PyTorch {torch.__version__}. `training.json` has every epoch."
