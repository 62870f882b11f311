"""The ledger: one classifier carried through every step of this book, and what each step makes of it.

The classifier is ``minilm-sst2``. Each step has a row: parameters, bytes on disk, the median and the 95th percentile of
the time for one text of 256 tokens, sentences of SST-2's dev set a second in their real lengths, accuracy, the largest
difference of a logit to the first row, and dollars for a million sentences on a machine that is never idle. The price
is that of the chapter on SageMaker.

Engines take turns with the first row in one process, and their ratio to it is kept. What is seen from outside (the
server, SageMaker's container, the browser) runs in processes of its own, after them, each once; it answers with
probabilities, so no logits are compared. To the server and the container texts of nearly as many tokens are sent by one
client, the sentences by 64 at once; the labels are from requests of 32 sentences after that. A batch transform job
sends all sentences in one request, to a container that has the settings of such a job. A browser downloads its bytes;
it computes on one core, on the reader's machine, so it has no price. Two students are timed with weights that
have learned nothing, which takes as long; their accuracy is from ``compression/distillation``. With ``--steps`` the
other rows stay as they were: each row tells when, where and how it was measured.

    python -m benchmarks.deployment.ledger    # needs D2LBERT_DATA and Chromium; six minutes on two idle cores
    python -m benchmarks.deployment.ledger --steps pruned
    python -m benchmarks.deployment.ledger --turns 3 --batches 2 --seconds 1 --result deployment/trial
"""

from __future__ import annotations

import bisect
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import int8_sides
from benchmarks.command_line import command_line
from benchmarks.compression.distillation import STUDENTS
from benchmarks.compression.sharing import factorised, how_often, size_of
from benchmarks.deployment.serving import MODEL, percentile
from benchmarks.engine_turns import TOLERANCE, Layout, instructions, texts_of_length, turns_of
from benchmarks.from_outside import (
    BROWSER,
    CLIENTS,
    CONTAINER,
    SERVED,
    TRANSFORM,
    WAYS,
    Asked,
    Seen,
    seen_from_outside,
)
from benchmarks.labels import compared, labels_of
from benchmarks.pruned import smaller_models
from benchmarks.record import Record
from benchmarks.timing import Lap, compare
from benchmarks.workshop import Made, Workshop, best_way
from d2lbert import UserError, notebook
from d2lbert.data.batching import pack, pad
from d2lbert.text import WordPiece

REFERENCE = "transformers, padded"
STUDENT = "student: "
RANK = 128
TOKENS = 256  # of the text whose latency is taken
PRICE = 0.269  # dollars an hour, as the chapter on SageMaker cites it


@dataclass(frozen=True)
class Limits:
    """How much is measured.

    Fields:
        turns: texts whose latency is taken.
        batches: of sentences; None for all.
        seconds: for each measurement of a server.
    """

    turns: int
    batches: int | None
    seconds: float

    def asked(self, shop: Workshop) -> Asked:
        """Return what is asked from outside."""
        texts = shop.texts[: self.batches and self.batches * int8_sides.BATCH]
        long = shortened(shop.tokenizer, texts, TOKENS, min(self.turns, len(texts)))
        return Asked([{"text": text} for text in texts], [{"text": text} for text in long])


def student_row(name: str) -> dict[str, Any]:
    """Return what a row says of the best way to teach a student."""
    best = best_way(name)
    words = f"taught by: {best['way']}, the best of {best['of']} ways; accuracy: mean of {best['accuracy']['n']} runs"
    unknown = ("largest_difference_of_logits", "changed", "right before", "right after", "difference")
    none = dict.fromkeys((*unknown, "standard_error_of_difference"))
    return {**none, "words": words, "accuracy": best["accuracy"]["mean"], "taught": best["run"]}


def outside_row(model: torch.nn.Module, seen: Seen, things: str) -> dict[str, Any]:
    """Return what a row has of a model that was asked from outside, without how good its answers are.

    Args:
        model: that was asked.
        seen: from outside.
        things: what one asks, as "sentences".
    """
    size, price = size_of(model), dollars(seen.per_second)
    return {
        **(size if seen.downloaded is None else {**size, "bytes": seen.downloaded}),
        "milliseconds": milliseconds(seen.waited) if seen.waited else None,
        f"{things}_per_second": seen.per_second,
        "times_the_first": None,
        "largest_difference_of_logits": None,
        "dollars_per_million": price if seen.downloaded is None else None,
    }


def outside_rows(shop: Workshop, names: list[str], limits: Limits) -> dict[str, Any]:
    """Ask from outside; return the rows of those ways that were asked for."""
    rows = {}
    for name in names:
        if name in WAYS:
            seen = seen_from_outside(name, MODEL, TOKENS, limits.asked(shop), limits.seconds)
            found = np.array([shop.model.labels.index(answer["label"]) for answer in seen.answers])
            exact = labels_of(int8_sides.in_pytorch(shop.model), shop.whole.encodings("dev")[: len(found)])
            answers = compared(found, exact, shop.truth[: len(found)])
            rows[name] = outside_row(shop.model, seen, "sentences") | answers
    return rows


@dataclass(frozen=True)
class Step:
    """A row of the ledger.

    Fields:
        chapter: the slug of the chapter that tells how it is made; empty for what the reader starts from.
        make: makes an engine; none for what is seen from outside.
        known: returns what is known of it from elsewhere.
    """

    chapter: str
    make: Callable[[Workshop], Made] | None = None
    known: Callable[[], Mapping[str, Any]] = dict


# In the order of the book.
STEPS = {
    REFERENCE: Step("", Workshop.in_transformers),
    "packed rows": Step("", lambda shop: shop.changed(lambda model: None)),
    "narrow table": Step("sharing", lambda shop: shop.changed(factorised(RANK, how_often(shop.whole)))),
    **{
        STUDENT + name: Step("distillation", partial(Workshop.student, name=name), known=partial(student_row, name))
        for name in STUDENTS
    },
    "pruned": Step("pruning", lambda shop: shop.changed(smaller_models(shop.whole)["half of heads and neurons"])),
    "8 bits": Step("quantization", lambda shop: shop.exported(lambda graph: int8_sides.int8_file(graph, "int8"))),
    "8 bits, calibrated": Step(
        "quantization",
        lambda shop: shop.exported(lambda graph: int8_sides.int8_file(graph, "calibrated", batches=shop.calibration())),
    ),
    "ONNX, 32 bits": Step("export", lambda shop: shop.exported(lambda graph: graph)),
    **{way: Step(chapter) for way, chapter in WAYS.items()},
}
SAME = ("packed rows", "ONNX, 32 bits")  # change no weight: their logits must be those of the first row
# What the rows of these steps hold in words.
WORDS = {
    REFERENCE: "32 bits, each batch padded to its longest text",
    "packed rows": "this book's encoder, 32 bits, several texts in one row",
    "narrow table": f"the table of pieces as two factors of rank {RANK}, pieces weighed",
    **{STUDENT + name: "taught by the classifier" for name in STUDENTS},
    "pruned": "half of the heads and half of the neurons",
    "8 bits": "ONNX Runtime, ranges of inputs taken as they come",
    "8 bits, calibrated": "ONNX Runtime, ranges from training texts",
    "ONNX, 32 bits": "ONNX Runtime",
    SERVED: f"d2lbert serve, 32 bits, {CLIENTS} clients at once",
    CONTAINER: f"its program serve, 32 bits, {CLIENTS} clients at once",
    TRANSFORM: "all sentences in one request of JSON lines",
    BROWSER: "ONNX Runtime Web, 8 bits, one core, one text at a time",
}


def dollars(sentences_per_second: float) -> float:
    """Return what a million sentences cost on a machine that is never idle."""
    return 1e6 / sentences_per_second / 3600 * PRICE


def milliseconds(seconds: list[float]) -> dict[str, float]:
    """Return the median and the 95th percentile of some times."""
    return {name: 1000 * percentile(seconds, share) for name, share in (("p50", 0.5), ("p95", 0.95))}


def row(
    made: Made, latency: list[Lap], speed: dict[str, Any], name: str, logits: dict[str, np.ndarray], truth: np.ndarray
) -> dict[str, Any]:
    """Return what was measured of one step.

    Args:
        latency: of one text each.
        speed: of all steps in sentences, as :func:`benchmarks.timing.compare` returns it.
        logits: (N, C) of all steps for N sentences.
        truth: (N,), the right labels.

    Raises:
        SystemExit: a step that changes no weight computed something else.
    """
    rate = speed["sentences_per_second"][name]["total"]
    first = logits[REFERENCE]
    largest = float(np.abs(logits[name] - first).max())
    if name in SAME and largest > TOLERANCE:
        raise SystemExit(f"{name}: logits differ by {largest:.1e}; it did not compute the same")
    ratio = speed["ratio"].get(f"{name} to {REFERENCE}")
    return {
        **made.size,
        "milliseconds": milliseconds([lap.seconds for lap in latency]),
        "sentences_per_second": rate,
        "times_the_first": {key: ratio[key] for key in ("median", "quartiles")} if ratio else None,
        "largest_difference_of_logits": largest,
        "dollars_per_million": dollars(rate),
        **compared(logits[name].argmax(-1), first.argmax(-1), truth),
    }


def engine_rows(shop: Workshop, names: list[str], limits: Limits) -> dict[str, Any]:
    """Let steps take turns with the first row; return the rows of those that were asked for."""
    if not any(STEPS[name].make for name in names):
        return {}
    made = {name: step.make(shop) for name in dict.fromkeys([REFERENCE, *names]) if (step := STEPS[name]).make}
    turns = range(limits.turns)
    latency, _ = turns_of(
        {name: long_side(shop, one, limits.turns) for name, one in made.items()}, [[n] for n in turns]
    )
    chunks = int8_sides.batches_of(range(len(shop.texts)))[: limits.batches]
    laps, logits = turns_of({name: short_side(shop, one) for name, one in made.items()}, chunks)
    speed = compare(laps, "sentences", [(name, REFERENCE) for name in made if name != REFERENCE])
    truth = shop.truth[: len(logits[REFERENCE])]
    return {name: row(made[name], latency[name], speed, name, logits, truth) for name in names if name in made}


def long_side(shop: Workshop, made: Made, turns: int) -> tuple[int8_sides.Engine, Layout]:
    """Return what lays out texts of :data:`TOKENS` of a step's own tokens, by their number, and its engine."""
    return made.engine, by_number(made, texts_of_length(made.tokenizer or shop.tokenizer, shop.texts, TOKENS, turns))


def short_side(shop: Workshop, made: Made) -> tuple[int8_sides.Engine, Layout]:
    """Return what lays out sentences by their number, and the engine of a step."""
    return made.engine, by_number(made, (made.tokenizer or shop.tokenizer).encode_batch(shop.texts, max_length=TOKENS))


def by_number(made: Made, encodings: list[Any]) -> Layout:
    """Return what lays out texts for a step, given their numbers."""
    layout = pack if made.packed else pad
    return lambda numbers: layout([encodings[number] for number in numbers])


def shortened(tokenizer: WordPiece, texts: list[str], tokens: int, count: int) -> list[str]:
    """Return texts of at most so many tokens, and of as many as whole words allow: a server reads texts, not ids."""
    found = []
    for first in range(count):
        words = " ".join((texts[first:] + texts[:first]) * (1 + tokens // len(texts))).split()[:tokens]
        fit = bisect.bisect_right(
            range(len(words) + 1), tokens, key=lambda n, words=words: len(tokenizer.encode(" ".join(words[:n])))
        )
        found.append(" ".join(words[: fit - 1]))
    return found


def stored_rows(result: str, names: list[str], known: Collection[str]) -> dict[str, Any]:
    """Return the rows of an earlier run that are not measured anew.

    Raises:
        SystemExit: only some steps are asked for, and there is no earlier run.
    """
    if len(names) == len(known):
        return {}
    try:
        rows: dict[str, Any] = notebook.results(result)["metrics"]
    except UserError:
        raise SystemExit(f"no stored results/{result}.json: measure all steps first, without --steps") from None
    return {name: own for name, own in rows.items() if name not in names}


def measure(size: int | None, limits: Limits, names: list[str]) -> dict[str, Any]:
    """Return the rows of the steps, each with what it is."""
    with tempfile.TemporaryDirectory() as folder:
        shop = Workshop(Path(folder), size)
        rows = engine_rows(shop, names, limits) | outside_rows(shop, names, limits)
    return {
        name: {"chapter": STEPS[name].chapter, "words": WORDS[name], **rows[name], **STEPS[name].known()}
        for name in names
    }


def main() -> None:
    """Measure the steps and write ``results/deployment/ledger.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--steps", nargs="+", choices=list(STEPS), default=list(STEPS), help="what is measured anew")
    parser.add_argument("--turns", type=int, default=60, help="texts whose latency is taken")
    parser.add_argument("--batches", type=int, help="of the dev set; by default all")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each measurement of a server")
    parser.add_argument("--size", type=int, help="examples of each part, to try the script out; default all")
    parser.add_argument("--result", default="deployment/ledger", help="results/<this>.json")
    options = parser.parse_args()
    names = [name for name in STEPS if name in options.steps]
    record = Record(
        options.result, ["torch", "transformers", "onnxruntime", "d2lbert"], data_sets=["sst2"], size=options.size
    )
    rows = stored_rows(options.result, names, STEPS)
    measured = measure(options.size, Limits(options.turns, options.batches, options.seconds), names)
    stamp = record.stamp() | record.beside()
    rows |= {name: {**own, "measured": stamp} for name, own in measured.items()}
    record.write(
        {name: rows[name] for name in STEPS if name in rows},
        data="sst2 dev",
        batch_size=int8_sides.BATCH,
        tokens=TOKENS,
        clients=CLIENTS,
        dollars_per_hour=PRICE,
        model=MODEL,
        threads=torch.get_num_threads(),
        instructions=instructions(),
        quiet=all(own["measured"].get("quiet", True) for own in rows.values()),
    )


if __name__ == "__main__":
    main()
