"""Fine-tune the 6-layer MiniLM on sentences, pairs, scores and tags: the plan of every set, and how it is measured.

Where a set has a test split, dev chooses the epoch and test is scored once; where it has none, and for CoLA, a tenth
of the training examples chooses and dev is scored once. Of phrases, whole sentences choose, and what is part of them is
not trained on. Each run is kept as it ends and each epoch has a checkpoint, so that a stopped benchmark goes on where
it was. Each set has a script of its own in ``benchmarks/finetuning``.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.command_line import add_precision, add_runs, add_seeds, command_line
from benchmarks.record import Record, kept, spread
from d2lbert import data, get_model
from d2lbert.data.examples import Sentence
from d2lbert.tasks.table import fitting_examples, named_task
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification, BertForTokenClassification
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.training.evaluation import evaluate
from d2lbert.torch.training.finetuning import Training, fine_tune

EVERY = 10  # one training example of so many chooses the epoch, where there is no test split
FIRST_EPOCHS = 2  # on the set that comes before
MISTAKES = 12  # that a result file keeps, to be looked at
SENTENCE_EVERY = 20  # one sentence of so many chooses the epoch, where phrases are trained on


@dataclass(frozen=True)
class Plan:
    """How one set is measured.

    Fields:
        task: what the command line calls it.
        score: what is reported, and what chooses the epoch.
        split: what is scored in the end.
        epochs, learning_rate: the settings that are not the defaults.
        first: a set of pairs that the encoder is fine-tuned on before, where the set itself is small.
        batch_size: texts for one step.
        every: one training example of so many is trained on, and as many choose; the others would take too long.
        sentences: where the set holds phrases, the set of the whole sentences that they are parts of.
    """

    task: str
    score: str
    split: str
    epochs: int = 4
    learning_rate: float = 1e-4
    first: str = ""
    batch_size: int = 32
    sentences: str = ""
    every: int = 1

    def settings(self, seed: int, precision: str = "auto") -> Training:
        """Return the settings of a run."""
        return Training(
            seed=seed,
            precision=precision,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            best_by=self.score,
        )


PLANS = {
    "sst2": Plan("classification", "accuracy", "dev"),
    # Seventy thousand short phrases: a larger batch saves time. On the sentences that choose, four epochs did no better
    # (three seeds), nor did, with one seed, twice the batch and the rate with three epochs; nor, in one epoch, a head
    # on the mean of all tokens, twice the rate, two passes with dropout that must agree, or moved word vectors.
    "sst2_glue": Plan(
        "classification", "accuracy", "test", epochs=2, learning_rate=7e-5, batch_size=64, sentences="sst2"
    ),
    "mrpc": Plan("pair", "f1", "dev", learning_rate=5e-5),
    "stsb_en": Plan("pair", "spearman", "dev"),
    "cola": Plan("classification", "matthews", "dev"),
    "rte": Plan("pair", "accuracy", "test", first="mnli_dev_matched"),
    "sick": Plan("pair", "accuracy", "test"),
    "wnut17": Plan("tagging", "f1", "test", epochs=5, learning_rate=2e-4),
    "conll2003": Plan("tagging", "f1", "test", learning_rate=2e-4),
    "brown_universal": Plan("tagging", "accuracy", "test", epochs=1, learning_rate=3e-4, every=8),
    "trec": Plan("classification", "accuracy", "test", epochs=3, learning_rate=2e-4, batch_size=64),
    "trec_fine": Plan("classification", "accuracy", "test", epochs=6, learning_rate=3e-4, batch_size=64),
    "agnews": Plan("classification", "accuracy", "dev", epochs=2, batch_size=64),
}

# Sentences and pairs of them: what other benchmarks measure with the same splits.
SENTENCES = {name: PLANS[name] for name in ("sst2", "mrpc", "stsb_en", "cola", "rte", "sick")}


def read(name: str, plan: Plan) -> tuple[list[Any], list[Any], list[Any]]:
    """Return what to train on, what chooses the epoch, and what is scored."""
    train, dev = (fitting_examples(plan.task, name, data.load(name, split)) for split in ("train", "dev"))
    if plan.sentences:
        sentences = [example.text for example in data.load(plan.sentences, "train")]
        return *apart([*train, *dev], sentences), data.load(name, plan.split)
    if plan.split == "test":
        test = fitting_examples(plan.task, name, data.load(name, "test"))
        return train[:: plan.every], dev[:: plan.every], test
    return [example for number, example in enumerate(train) if number % EVERY], train[::EVERY], dev


def apart(phrases: list[Sentence], sentences: list[str]) -> tuple[list[Sentence], list[Sentence]]:
    """Return the phrases to train on and those that choose the epoch: some of the whole sentences.

    No phrase to train on is a part of a sentence that chooses, up to case and punctuation.

    Args:
        phrases: whole sentences and parts of them.
        sentences: the whole sentences; their punctuation may be another, or lost.
    """
    words = [words_of(phrase.text) for phrase in phrases]
    whole = {words_of(sentence) for sentence in sentences}.intersection(words)
    choosing = set(sorted(whole)[::SENTENCE_EVERY])
    parts = {text[begin:end] for text in choosing for end in range(1, len(text) + 1) for begin in range(end)}
    train = [phrase for phrase, text in zip(phrases, words, strict=True) if text not in parts]
    return train, [phrase for phrase, text in zip(phrases, words, strict=True) if text in choosing]


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text without case and punctuation."""
    return tuple(re.findall(r"\w+", text.lower()))


def train(
    name: str, plan: Plan, seed: int, precision: str, checkpoint: Path | None = None
) -> tuple[Any, Any, Any, list[dict[str, float]]]:
    """Train with one seed; return the model, its task, its tokenizer and the history of the epochs."""
    examples, choice, _ = read(name, plan)
    task = named_task(plan.task).of_examples(examples)
    seed_everything(seed)
    encoder, tokenizer = get_model("minilm")
    if plan.first:
        learn_first(encoder, tokenizer, plan.first, Training(seed=seed, precision=precision, epochs=FIRST_EPOCHS))
    head = BertForTokenClassification if plan.task == "tagging" else BertForSequenceClassification
    model = head(encoder, task.labels)
    settings = plan.settings(seed, precision)
    history = fine_tune(model, task, tokenizer, examples, choice, settings, best_device(), checkpoint=checkpoint)
    return model, task, tokenizer, history


def learn_first(encoder: BertModel, tokenizer: WordPiece, name: str, settings: Training) -> None:
    """Fine-tune the encoder on another set of pairs; the head is thrown away (Phang et al. 2018)."""
    examples, dev = data.load(name, "train"), data.load(name, "dev")
    task = named_task("pair").of_examples(examples)
    model = BertForSequenceClassification(encoder, task.labels)
    fine_tune(model, task, tokenizer, examples, dev, settings, best_device())


def run(name: str, plan: Plan, seed: int, precision: str, checkpoint: Path) -> dict[str, Any]:
    """Train with one seed; return the scores, the history and some of the mistakes."""
    model, task, tokenizer, history = train(name, plan, seed, precision, checkpoint)
    parts = read(name, plan)
    scores, answers = evaluate(model, task, tokenizer, parts[2], device=best_device())
    examples = dict(zip(("train", "choice", "scored"), map(len, parts), strict=True))
    return {
        "scores": scores,
        "history": history,
        "examples": examples,
        "mistakes": mistakes(plan, parts[2], answers),
        "confusion": confusion(parts[2], answers),
    }


def mistakes(plan: Plan, examples: list[Any], answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first wrong answers, or, of scores, the most distant ones, each with its example."""
    pairs = [(asdict(example), answer) for example, answer in zip(examples, answers, strict=True)]
    if plan.score == "spearman":
        pairs.sort(key=lambda pair: -abs(pair[0]["score"] - pair[1]["score"]))
    else:
        key = "tags" if plan.task == "tagging" else "label"
        pairs = [(right, answer) for right, answer in pairs if list(right[key]) != list(answer[key])]
    return [{"example": right, "answer": answer} for right, answer in pairs[:MISTAKES]]


def confusion(examples: list[Any], answers: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return how often each true label, or tag, got each answer; nothing for scores.

    Returns:
        True label -> answer -> count. What never happened is left out.
    """
    counts: dict[str, dict[str, int]] = {}
    for example, answer in zip(examples, answers, strict=True):
        if hasattr(example, "tags"):
            pairs = list(zip(example.tags, answer["tags"], strict=True))
        else:
            pairs = [(example.label, answer["label"])] if hasattr(example, "label") else []
        for truth, found in pairs:
            row = counts.setdefault(truth, {})
            row[found] = row.get(found, 0) + 1
    return counts


def kept_or_run(name: str, seed: int, precision: str, folder: Path) -> dict[str, Any]:
    """Return what an earlier call has kept of this run, or run it and keep it."""
    settings = {"plan": asdict(PLANS[name]), "precision": precision}
    stem = f"{name}-{seed}"
    found: dict[str, Any] = kept(
        folder / f"{stem}.json", settings, lambda: run(name, PLANS[name], seed, precision, folder / stem)
    )
    print(name, seed, found["scores"], flush=True)
    return found


def measure(name: str, doc: str) -> None:
    """Read the command line of a set's script, run its plan with every seed, write ``results/finetuning/<name>.json``.

    Args:
        name: of the set.
        doc: the script's docstring, for its help.
    """
    parser = command_line(doc)
    add_seeds(parser)
    add_precision(parser)
    add_runs(parser, f"finetuning/{name}")
    options = parser.parse_args()
    record = Record(
        f"finetuning/{name}", ["torch", "d2lbert", "scikit-learn", "scipy"], options.seeds, data_sets=[name]
    )
    runs = [kept_or_run(name, seed, options.precision, options.runs) for seed in options.seeds]
    scores = {key: spread([one["scores"][key] for one in runs]) for key in runs[0]["scores"]}
    record.write(
        scores,
        data=name,
        plan=asdict(PLANS[name]),
        precision=options.precision,
        examples=runs[0]["examples"],
        histories=[one["history"] for one in runs],
        mistakes=runs[0]["mistakes"],
        confusion=runs[0]["confusion"],
    )
