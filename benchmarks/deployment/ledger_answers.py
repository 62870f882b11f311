"""The ledger of a second model: MiniLM that answers questions, carried through the steps that a model can take alone.

The model is ``minilm-squad``, its questions are those of XQuAD (English). The columns are those of the classifier's
ledger (:mod:`benchmarks.deployment.ledger`): parameters, bytes on disk, the median and the 95th percentile of the time
for one window (the longest ones, of at most 256 tokens), questions a second, the largest difference of a logit to the
first row, dollars for a million questions; and F1, with the standard error of its difference to the first row. All
engines take turns in one process: batches of windows for the speed, all questions for F1. What is seen from outside
runs after them, in processes of its own, each once. To the server and SageMaker's container one client sends questions
with the longest texts that fit into 256 tokens with them, 64 at once send all in turn; the answers that are scored are
from requests of 32 questions after that. A batch transform job sends all questions in one request, to a container that
has the settings of such a job. A browser computes on one core, on the reader's machine, so it has no price. What is
chosen (counts of pieces, importance, calibration) is chosen from training questions. The student was timed as it is
before it learns, which takes as long; its F1 is from ``compression/reader``. With ``--steps`` the other rows stay as
they were.

    python -m benchmarks.deployment.ledger_answers    # needs D2LBERT_DATA and Chromium; 11 minutes on two idle cores
    python -m benchmarks.deployment.ledger_answers --steps served
    python -m benchmarks.deployment.ledger_answers --size 20 --turns 2 --batches 2 --seconds 1
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.command_line import command_line
from benchmarks.compression.reader import student_of
from benchmarks.compression.sharing import size_of
from benchmarks.deployment.ledger import (
    PRICE,
    RANK,
    SAME,
    STUDENT,
    TOKENS,
    WORDS,
    dollars,
    milliseconds,
    outside_row,
    stored_rows,
)
from benchmarks.engine_turns import TOLERANCE, instructions, rested
from benchmarks.from_outside import BROWSER, TRANSFORM, WAYS, Asked, seen_from_outside
from benchmarks.int8_sides import BATCH, CALIBRATION, batches_of, graph_file, int8_file, to_calibrate
from benchmarks.pruned import HALF_OF_HEADS, WEIGHED_ON, in_each_layer
from benchmarks.questions import LONGEST, f1_of_each, read_parts
from benchmarks.record import Record
from benchmarks.standard_error import paired_difference
from benchmarks.timing import Lap, Side, compare, take_turns, timed
from benchmarks.twins import twin
from d2lbert import get_model, notebook
from d2lbert.data.examples import Question
from d2lbert.deploy.exported import ExportedModel
from d2lbert.deploy.graphs import PACKED
from d2lbert.outputs import Rows
from d2lbert.tasks.base import Input
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.torch.compression import (
    factorise_embeddings,
    head_importance,
    most_important,
    neuron_importance,
    normalize_per_layer,
    prune_encoder,
)
from d2lbert.torch.heads import BertForQuestionAnswering
from d2lbert.torch.training.evaluation import compute_outputs

REFERENCE = "transformers, padded"
MODEL = "minilm-squad"
TAUGHT = f"{STUDENT}three layers"


class InTransformers(nn.Module):
    """The same model in ``transformers``, with the interface of ours; it takes padded rows."""

    packed = False

    def __init__(self, model: BertForQuestionAnswering) -> None:
        super().__init__()
        self.config = model.config
        self.twin = twin(model, "BertForQuestionAnswering").eval()

    def forward(self, rows: Rows[Tensor]) -> Tensor:
        """Return the logits of tokens, (B, L, 2)."""
        found = self.twin(input_ids=rows.token_ids, attention_mask=rows.mask, token_type_ids=rows.segment_ids)
        return torch.stack([found.start_logits, found.end_logits], dim=-1)


class Made(NamedTuple):
    """What a step has made of the model.

    Fields:
        model: takes rows and returns the logits of tokens.
        size: its parameters, and the bytes of its file.
    """

    model: nn.Module
    size: dict[str, int]


class Workshop:
    """The model, its questions, and a folder for graphs.

    Args:
        folder: for graphs.
        size: questions of each part, to try the script out; all by default.
    """

    def __init__(self, folder: Path, size: int | None = None) -> None:
        self.folder = folder
        self.model, self.tokenizer = get_model("minilm", "squad")
        self.task = QuestionAnswering()
        parts = read_parts(self.tokenizer, size)
        self.train: list[Question] = parts["train"]
        self.test: list[Question] = parts["xquad"]

    @cached_property
    def known(self) -> list[Input]:
        """Training questions and their texts."""
        return self.task.inputs(self.train, self.tokenizer, LONGEST)

    def counts(self) -> Tensor:
        """Return how often each piece stands in the training texts, plus one, (V,)."""
        ids = torch.cat([torch.tensor(one.encodings[0].ids) for one in self.known])
        return 1 + torch.bincount(ids, minlength=self.model.config.vocab_size)

    def whole(self) -> Made:
        """Return the model as it is."""
        return Made(self.model, size_of(self.model))

    def in_transformers(self) -> Made:
        """Return the model as ``transformers`` computes it, in padded rows."""
        return Made(InTransformers(self.model), size_of(self.model))

    def narrow(self) -> Made:
        """Return a copy whose table of pieces is two factors."""
        model = copy.deepcopy(self.model)
        model.bert = factorise_embeddings(model.bert, RANK, self.counts())
        return Made(model, size_of(model))

    def student(self) -> Made:
        """Return the student of three layers before it has learned anything."""
        model = student_of(self.model)
        return Made(model, size_of(model))

    def pruned(self) -> Made:
        """Return a copy without the less important half of its heads and of its neurons."""
        model, given = copy.deepcopy(self.model), (self.task, self.tokenizer, self.train[:WEIGHED_ON], LONGEST)
        heads = most_important(normalize_per_layer(head_importance(self.model, *given)), HALF_OF_HEADS)
        neurons = in_each_layer(neuron_importance(self.model, *given), 0.5)
        model.bert = prune_encoder(model.bert, heads, neurons)
        return Made(model, size_of(model))

    def exported(self, write: Callable[[Path], Path]) -> Made:
        """Return a graph for ONNX Runtime in packed rows; ``write`` returns the file, given the graph in 32 bits."""
        path = write(graph_file(self.model, self.folder, packed=True))
        size = {**size_of(self.model), "bytes": path.stat().st_size}
        return Made(ExportedModel(path, self.model.config, list(self.model.labels)), size)

    def calibration(self) -> list[dict[str, np.ndarray]]:
        """Return the inputs that give the steps of a calibrated graph."""
        return to_calibrate([one.encodings[0] for one in self.known[:CALIBRATION]], PACKED)


# Name -> the chapter that tells how it is made, and what makes it; in the order of the book.
STEPS: dict[str, tuple[str, Callable[[Workshop], Made]]] = {
    REFERENCE: ("", Workshop.in_transformers),
    "packed rows": ("", Workshop.whole),
    "narrow table": ("sharing", Workshop.narrow),
    TAUGHT: ("distillation", Workshop.student),
    "pruned": ("pruning", Workshop.pruned),
    "8 bits": ("quantization", lambda shop: shop.exported(lambda graph: int8_file(graph, "int8"))),
    "8 bits, calibrated": (
        "quantization",
        lambda shop: shop.exported(lambda graph: int8_file(graph, "calibrated", batches=shop.calibration())),
    ),
    "ONNX, 32 bits": ("export", lambda shop: shop.exported(lambda graph: graph)),
}
NAMES = [*STEPS, *WAYS]
STEP_WORDS = {
    **WORDS,
    TAUGHT: "taught by the whole model",
    TRANSFORM: "all questions in one request of JSON lines",
    BROWSER: "ONNX Runtime Web, 8 bits, one core, one question at a time",
}


def f1_of(shop: Workshop, inputs: list[Input], outputs: list[np.ndarray]) -> tuple[np.ndarray, list[str]]:
    """Return the F1 of each question, and the answers."""
    return scored(shop, [one["answer"] for one in shop.task.predictions(shop.test, inputs, outputs)])


def scored(shop: Workshop, answers: list[str]) -> tuple[np.ndarray, list[str]]:
    """Return the F1 of each answer to the questions, and the answers."""
    return np.array(f1_of_each(shop.test, answers)), answers


def compared(own: tuple[np.ndarray, list[str]], first: tuple[np.ndarray, list[str]]) -> dict[str, float]:
    """Return the mean F1 of a step, and how it and its answers differ from those of the first row."""
    return {
        "f1": float(own[0].mean()),
        "changed": sum(one != other for one, other in zip(own[1], first[1], strict=True)),
        **paired_difference([own[0]], [first[0]]),
    }


def taught_row() -> dict[str, Any]:
    """Return what ``compression/reader`` found for the way to teach the student that is better on held-out articles."""
    stored = notebook.results("compression/reader")
    ways = stored["metrics"]["ways"]
    way = max(ways, key=lambda one: ways[one]["f1 of the choice"]["mean"])
    found = ways[way]
    return {
        "words": f"taught by: {way}, the better of {len(ways)} ways; F1: mean of {found['f1']['n']} runs",
        "f1": found["f1"]["mean"],
        **found["minus the teacher"],
        **dict.fromkeys(("changed", "largest_difference_of_logits")),
        "taught": {key: stored[key] for key in ("command", "date", "trained_at")},
    }


def laps_of(shop: Workshop, models: dict[str, nn.Module], turns: list[list[Input]]) -> dict[str, list[Lap]]:
    """Let the steps take turns over batches of windows; the first batch is done twice before, as a warm-up."""

    def side(model: nn.Module) -> Side:
        return rested(timed(lambda turn: compute_outputs(model, turn, shop.tokenizer, "cpu", BATCH), len))

    return take_turns({name: side(model) for name, model in models.items()}, [turns[0]] * 2 + turns, 2)


def engine_rows(
    shop: Workshop, names: list[str], turns: int, batches: int | None
) -> tuple[dict[str, Any], tuple[np.ndarray, list[str]]]:
    """Let steps take turns with the first row; return the rows of all, and F1 and answers of the first."""
    known = {TAUGHT: taught_row()} if TAUGHT in names else {}
    made = {name: make(shop) for name, (_, make) in STEPS.items() if name in (REFERENCE, *names)}
    models = {name: one.model.eval() for name, one in made.items()}
    inputs = shop.task.inputs(shop.test, shop.tokenizer, TOKENS)
    longest = sorted(inputs, key=lambda one: -len(one.encodings[0]))[:turns]
    latency = laps_of(shop, models, [[one] for one in longest])
    speed = compare(
        laps_of(shop, models, batches_of(inputs)[:batches]), "windows", [(name, REFERENCE) for name in list(made)[1:]]
    )
    outputs = {name: compute_outputs(model, inputs, shop.tokenizer, "cpu") for name, model in models.items()}
    scores = {name: f1_of(shop, inputs, own) for name, own in outputs.items()}
    rows, first = {}, scores[REFERENCE]
    for name in made:
        pairs = zip(outputs[name], outputs[REFERENCE], strict=True)
        largest = max(float(np.abs(own - first).max()) for own, first in pairs)
        if name in SAME and largest > TOLERANCE:
            raise SystemExit(f"{name}: logits differ by {largest:.1e}; it did not compute the same")
        rate = speed["windows_per_second"][name]["total"] * len(shop.test) / len(inputs)
        ratio = speed["ratio"].get(f"{name} to {REFERENCE}")
        rows[name] = {
            "chapter": STEPS[name][0],
            "words": STEP_WORDS[name],
            **made[name].size,
            "milliseconds": milliseconds([lap.seconds for lap in latency[name]]),
            "questions_per_second": rate,
            "times_the_first": {key: ratio[key] for key in ("median", "quartiles")} if ratio else None,
            "largest_difference_of_logits": largest,
            "dollars_per_million": dollars(rate),
            **compared(scores[name], first),
            **known.get(name, {}),
        }
        print(name, rows[name], flush=True)
    return rows, first


def asked_of(shop: Workshop, turns: int) -> Asked:
    """Return the questions as they are asked from outside; of those with the longest texts that fit so many."""
    contents = [{"text": question.context, "pair": question.question} for question in shop.test]
    fitting = [content for content in contents if len(shop.tokenizer.encode(*content.values())) <= TOKENS]
    return Asked(contents, sorted(fitting, key=lambda content: -len(content["text"]))[:turns])


def answered_row(
    shop: Workshop, name: str, first: tuple[np.ndarray, list[str]], turns: int, seconds: float
) -> dict[str, Any]:
    """Return the row of what is seen from outside; ``first`` are F1 and answers of the first row."""
    seen = seen_from_outside(name, MODEL, TOKENS, asked_of(shop, turns), seconds)
    row = {
        "chapter": WAYS[name],
        "words": STEP_WORDS[name],
        **outside_row(shop.model, seen, "questions"),
        **compared(scored(shop, [answer["answer"] for answer in seen.answers]), first),
    }
    print(name, row, flush=True)
    return row


def main() -> None:
    """Measure all steps and write ``results/deployment/ledger_answers.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--steps", nargs="+", choices=NAMES, default=NAMES, help="what is measured anew")
    parser.add_argument("--turns", type=int, default=40, help="windows whose latency is taken")
    parser.add_argument("--batches", type=int, default=15, help="of windows whose speed is taken")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each measurement of the server")
    parser.add_argument("--size", type=int, help="questions of each part, to try the script out; default all")
    parser.add_argument("--result", default="deployment/ledger_answers", help="results/<this>.json")
    options = parser.parse_args()
    packages = ["torch", "transformers", "onnxruntime", "d2lbert"]
    record = Record(options.result, packages, data_sets=["xquad", "squadshifts"], samples_do=False, size=options.size)
    rows = stored_rows(options.result, options.steps, NAMES)
    with tempfile.TemporaryDirectory() as folder:
        shop = Workshop(Path(folder), options.size)
        measured, first = engine_rows(shop, options.steps, options.turns, options.batches)
        for name in WAYS:
            if name in options.steps:
                measured[name] = answered_row(shop, name, first, options.turns, options.seconds)
    stamp = record.stamp() | record.beside()
    rows |= {name: {**own, "measured": stamp} for name, own in measured.items() if name in options.steps}
    record.write(
        {name: rows[name] for name in NAMES if name in rows},
        data="xquad",
        questions=len(shop.test),
        batch_size=BATCH,
        tokens=TOKENS,
        dollars_per_hour=PRICE,
        model=MODEL,
        threads=torch.get_num_threads(),
        instructions=instructions(),
        quiet=all(own["measured"].get("quiet", True) for own in rows.values()),
    )


if __name__ == "__main__":
    main()
