"""The ledger: one classifier carried through every step of this book, and what each step makes of it.

The classifier is ``minilm-sst2``. Each step has a row: parameters, bytes on disk, the median and the 95th percentile of
the time for one text of 256 tokens, sentences of SST-2's dev set a second in their real lengths, accuracy, the largest
difference of a logit to the first row, and dollars for a million sentences on a machine that is never idle. The price
is that of the chapter on SageMaker.

All steps that are measured take turns with the first row in one process, and their ratio to it is kept. The server runs
in a process of its own, after them: the longer texts are sent by one client, the sentences by 64 at once. Its texts
have up to 256 tokens. It answers with probabilities, so no logits are compared. Students come from
``compression/distillation``, where that was measured; their speed is not. With ``--steps`` the other rows stay as they
were: each row tells when, where and how it was measured.

    python -m benchmarks.deployment.ledger    # needs D2LBERT_DATA; three minutes on two idle cores
    python -m benchmarks.deployment.ledger --steps pruned
    python -m benchmarks.deployment.ledger --turns 3 --batches 2 --seconds 1 --result deployment/trial
"""

from __future__ import annotations

import argparse
import bisect
import json
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import int8_sides
from benchmarks.clients import send
from benchmarks.command_line import command_line
from benchmarks.compression.sharing import factorised, how_often, size_of
from benchmarks.deployment.serving import MODEL, OURS, PORT, WARM_UP, percentile, serving
from benchmarks.engine_turns import TOLERANCE, instructions, texts_of_length, turns_of
from benchmarks.labels import compared, labels_of
from benchmarks.pruned import Change, Whole, smaller_models
from benchmarks.record import Record
from benchmarks.timing import Lap, compare
from d2lbert import UserError, notebook
from d2lbert.text import WordPiece

REFERENCE = "transformers, padded"
SERVED = "served"
STUDENT = "student: "
RANK = 128
TOKENS = 256  # of the text whose latency is taken
CLIENTS = 64
PRICE = 0.269  # dollars an hour, as the chapter on SageMaker cites it


@dataclass(frozen=True)
class Made:
    """What a step has made of the classifier.

    Fields:
        engine: texts, laid out, to logits.
        packed: whether it takes packed rows.
        size: its parameters, and the bytes of its file.
    """

    engine: int8_sides.Engine
    packed: bool
    size: dict[str, int]


class Workshop:
    """The classifier, its examples, and a folder for files.

    Args:
        folder: for graphs.
        size: examples of each part, to try the script out; all by default.
    """

    def __init__(self, folder: Path, size: int | None = None) -> None:
        self.folder, self.whole = folder, Whole(size)
        self.model, self.tokenizer = self.whole.model.eval(), self.whole.tokenizer

    def in_transformers(self) -> Made:
        """Return the classifier as ``transformers`` computes it, in padded rows."""
        return Made(int8_sides.in_transformers(self.model, "sdpa"), False, size_of(self.model))

    def changed(self, change: Change) -> Made:
        """Return a copy after a change, in packed rows."""
        model = self.whole.after(change).eval()
        return Made(int8_sides.in_pytorch(model), True, size_of(model))

    def exported(self, write: Callable[[Path], Path]) -> Made:
        """Return a graph for ONNX Runtime in packed rows.

        Args:
            write: returns the file that is measured, given the graph in 32 bits.
        """
        path = write(int8_sides.graph_file(self.model, self.folder, packed=True))
        size = {**size_of(self.model), "bytes": path.stat().st_size}
        return Made(int8_sides.in_onnx_runtime(path, self.model), True, size)

    def calibration(self) -> list[dict[str, np.ndarray]]:
        """Return the inputs that give the steps of a calibrated graph."""
        return int8_sides.to_calibrate(self.whole.encodings("train")[: int8_sides.CALIBRATION])


@dataclass(frozen=True)
class Step:
    """A row of the ledger.

    Fields:
        chapter: the slug of the chapter that tells how it is made; empty for what the reader starts from.
        make: makes it; none for the server, which is another process.
    """

    chapter: str
    make: Callable[[Workshop], Made] | None = None


# In the order of the book.
STEPS = {
    REFERENCE: Step("", Workshop.in_transformers),
    "packed rows": Step("", lambda shop: shop.changed(lambda model: None)),
    "narrow table": Step("sharing", lambda shop: shop.changed(factorised(RANK, how_often(shop.whole)))),
    "pruned": Step("pruning", lambda shop: shop.changed(smaller_models(shop.whole)["half of heads and neurons"])),
    "8 bits": Step("quantization", lambda shop: shop.exported(lambda graph: int8_sides.int8_file(graph, "int8"))),
    "8 bits, calibrated": Step(
        "quantization",
        lambda shop: shop.exported(lambda graph: int8_sides.int8_file(graph, "calibrated", batches=shop.calibration())),
    ),
    "ONNX, 32 bits": Step("export", lambda shop: shop.exported(lambda graph: graph)),
    SERVED: Step("serving"),
}
SAME = ("packed rows", "ONNX, 32 bits")  # change no weight: their logits must be those of the first row
# What the rows of these steps hold in words.
WORDS = {
    REFERENCE: "32 bits, each batch padded to its longest text",
    "packed rows": "this book's encoder, 32 bits, several texts in one row",
    "narrow table": f"the table of pieces as two factors of rank {RANK}, pieces weighed",
    "pruned": "half of the heads and half of the neurons",
    "8 bits": "ONNX Runtime, ranges of inputs taken as they come",
    "8 bits, calibrated": "ONNX Runtime, ranges from training texts",
    "ONNX, 32 bits": "ONNX Runtime",
    SERVED: f"d2lbert serve, 32 bits, {CLIENTS} clients at once",
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


def engine_rows(shop: Workshop, names: list[str], turns: int, batches: int | None) -> dict[str, Any]:
    """Let steps take turns with the first row; return the rows of those that were asked for."""
    made = {name: step.make(shop) for name in dict.fromkeys([REFERENCE, *names]) if (step := STEPS[name]).make}
    sides = {name: (one.engine, one.packed) for name, one in made.items()}
    texts = [example.text for example in shop.whole.parts["dev"]]
    long = texts_of_length(shop.tokenizer, texts, TOKENS, turns)
    encodings = shop.whole.encodings("dev")
    chunks = int8_sides.batches_of(encodings)[:batches]
    latency, _ = turns_of(sides, [[one] for one in long])
    laps, logits = turns_of(sides, chunks)
    speed = compare(laps, "sentences", [(name, REFERENCE) for name in made if name != REFERENCE])
    truth = true_labels(shop)[: len(logits[REFERENCE])]
    return {name: row(made[name], latency[name], speed, name, logits, truth) for name in names if name in made}


def true_labels(shop: Workshop) -> np.ndarray:
    """Return the number of the right label of each dev sentence, (N,)."""
    return np.array([shop.model.labels.index(example.label) for example in shop.whole.parts["dev"]])


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


def answers(texts: list[str]) -> list[dict[str, Any]]:
    """Return the server's answer to each text; a request holds a batch of them."""
    found = []
    for batch in int8_sides.batches_of(texts):
        body = "".join(json.dumps({"text": text}) + "\n" for text in batch).encode()
        kind = {"Content-Type": "application/jsonlines"}
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}/invocations", body, kind)
        with urllib.request.urlopen(request, timeout=600) as reply:
            found += [json.loads(line) for line in reply.read().splitlines()]
    return found


def served_row(shop: Workshop, turns: int, batches: int | None, seconds: float) -> dict[str, Any]:
    """Return what clients see of the server."""
    texts = [example.text for example in shop.whole.parts["dev"]][: batches and batches * int8_sides.BATCH]
    long = [{"text": text} for text in shortened(shop.tokenizer, texts, TOKENS, min(turns, len(texts)))]
    contents = [{"text": text} for text in texts]
    with serving(OURS):
        send(PORT, "/invocations", contents, CLIENTS, min(WARM_UP, seconds))
        one = send(PORT, "/invocations", long, 1, seconds)
        many = send(PORT, "/invocations", contents, CLIENTS, seconds)
        told = [answer["label"] for answer in answers(texts)]
    if one.refused or many.refused:
        raise SystemExit(f"the server refused {one.refused + many.refused} requests: run it again on an idle machine")
    found = np.array([shop.model.labels.index(label) for label in told])
    exact = labels_of(int8_sides.in_pytorch(shop.model), shop.whole.encodings("dev")[: len(texts)])
    rate = len(many.waited) / many.seconds
    return {
        **size_of(shop.model),
        "milliseconds": milliseconds(one.waited),
        "sentences_per_second": rate,
        "times_the_first": None,
        "largest_difference_of_logits": None,
        "dollars_per_million": dollars(rate),
        **compared(found, exact, true_labels(shop)[: len(texts)]),
    }


def student_rows() -> dict[str, Any]:
    """Return what is known of the students of ``compression/distillation``, the best way of each; none without it."""
    try:
        stored = notebook.results("compression/distillation")
    except UserError:
        return {}
    students, found = stored["metrics"]["students"], {}
    for name, ways in students.items():
        way, best = max(ways.items(), key=lambda pair: pair[1]["accuracy"]["mean"])
        found[STUDENT + name] = {
            "chapter": "distillation",
            "words": f"taught by: {way}, the best of {len(ways)} ways; mean of {best['accuracy']['n']} runs",
            "parameters": best["parameters"],
            "bytes": best["bytes"],
            "milliseconds": None,
            "sentences_per_second": None,
            "times_the_first": None,
            "largest_difference_of_logits": None,
            "dollars_per_million": None,
            "accuracy": best["accuracy"]["mean"],
            "measured": {name: stored[name] for name in ("command", "date", "commit")},
        }
    return found


def in_order(rows: dict[str, Any]) -> dict[str, Any]:
    """Return the rows in the order of the book: students stand before the pruned model."""
    names = list(STEPS)
    before, after = names[: names.index("pruned")], names[names.index("pruned") :]
    students = [name for name in rows if name.startswith(STUDENT)]
    return {name: rows[name] for name in (*before, *students, *after) if name in rows}


def stored_rows(result: str, names: list[str]) -> dict[str, Any]:
    """Return the rows of an earlier run that are not measured anew.

    Raises:
        SystemExit: only some steps are asked for, and there is no earlier run.
    """
    if len(names) == len(STEPS):
        return {}
    try:
        rows: dict[str, Any] = notebook.results(result)["metrics"]
    except UserError:
        raise SystemExit(f"no stored results/{result}.json: measure all steps first, without --steps") from None
    return {name: own for name, own in rows.items() if name not in names and not name.startswith(STUDENT)}


def measure(options: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    """Return the rows of the steps, each with what it is."""
    with tempfile.TemporaryDirectory() as folder:
        shop = Workshop(Path(folder), options.size)
        rows = engine_rows(shop, names, options.turns, options.batches)
        if SERVED in names:
            rows[SERVED] = served_row(shop, options.turns, options.batches, options.seconds)
    return {name: {"chapter": STEPS[name].chapter, "words": WORDS[name], **own} for name, own in rows.items()}


def main() -> None:
    """Measure the steps and write ``results/deployment/ledger.json``."""
    parser = command_line(str(__doc__))
    parser.add_argument("--steps", nargs="+", choices=list(STEPS), default=list(STEPS), help="what is measured anew")
    parser.add_argument("--turns", type=int, default=60, help="texts whose latency is taken")
    parser.add_argument("--batches", type=int, help="of the dev set; by default all")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each of two measurements of the server")
    parser.add_argument("--size", type=int, help="examples of each part, to try the script out; default all")
    parser.add_argument("--result", default="deployment/ledger", help="results/<this>.json")
    options = parser.parse_args()
    names = [name for name in STEPS if name in options.steps]
    record = Record(
        options.result, ["torch", "transformers", "onnxruntime", "d2lbert"], data_sets=["sst2"], size=options.size
    )
    rows = stored_rows(options.result, names)
    measured = measure(options, names)
    stamp = record.stamp() | record.beside()
    rows |= {name: {**own, "measured": stamp} for name, own in measured.items()} | student_rows()
    record.write(
        in_order(rows),
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
