"""The official sets of the slides' tables with BERT, as its paper fine-tuned it. For a GPU and a network.

One command, run once. Nothing is chosen on what is scored: the last epoch counts, and the learning rate is fixed before
or, with --choose, found on a tenth of the training examples and then used on all of them. SQuAD takes 3 epochs at 5e-5
(version 2.0: 2 epochs of 48), SWAG 3 epochs of 16 at 2e-5, GLUE 3 epochs of 32 at 2e-5, one of the paper's four rates
(Devlin et al. 2019, section 4). For CoNLL-2003 the paper names no settings: 3 epochs of 32 at 5e-5. Of SQuAD 2.0 the
threshold of "no answer" is 0; the best one on dev stands beside it as best_f1, as in the paper. The paper's scores are
of GLUE's hidden test sets, ours of dev; MRPC's test set has its labels, and is scored once.

The archives are downloaded once and compared with their known sha256; files that --data has already are taken. Each run
is kept as it ends, and a checkpoint after each epoch (4 GB for BERT-base): a stopped benchmark goes on where it was. A
row is written as soon as its set is done and stands under the model's own name; other rows stay. A run with --limit, or
on other files than the published ones, is written to --runs and not to results/.

    python -m benchmarks.finetuning.official                              # BERT-base, hours on one GPU
    python -m benchmarks.finetuning.official --size large --seeds 0 1 2
    python -m benchmarks.finetuning.official --sets cola sst2 mrpc stsb qqp mnli qnli rte --submit runs/glue
    python -m benchmarks.finetuning.official --sets rte --model minilm --limit 60    # to try it out
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import glue_server
from benchmarks.archives import Member, unpacked
from benchmarks.command_line import add_runs, add_seeds, command_line
from benchmarks.official_sets import SETS, WNLI, Official, check_conll, digests
from benchmarks.record import Record, kept, spread
from benchmarks.standard_error import standard_error
from d2lbert import UserError, data, get_model
from d2lbert.config.training import Training
from d2lbert.data.published import published
from d2lbert.storage.places import cache_folder
from d2lbert.tasks.base import Task, encode_texts
from d2lbert.tasks.pair import PairClassification
from d2lbert.tasks.table import named_task
from d2lbert.text import CompactEncoding, Tokenizer
from d2lbert.torch import heads
from d2lbert.torch.runtime import seed_everything
from d2lbert.torch.training.evaluation import compute_outputs, predict
from d2lbert.torch.training.finetuning import LAST, fine_tune
from d2lbert.zoo.folders import find_model, is_other_repository, local_folder

RATES = (5e-5, 4e-5, 3e-5, 2e-5)  # that --choose tries
SIZES = {"base": "bert_12_768_12", "large": "bert_24_1024_16"}
CUT = 0.1  # share of the training examples that chooses the rate
FEWEST = 10  # examples for --limit


class PublishedPairs(PairClassification):
    """Pairs as they were published: a text may be empty, as two questions of QQP are."""

    def encode(self, examples: Sequence[Any], tokenizer: Tokenizer, max_length: int) -> list[CompactEncoding]:
        """Return [CLS] first [SEP] second [SEP] for each example."""
        firsts, seconds = [example.first for example in examples], [example.second for example in examples]
        return encode_texts(tokenizer, firsts, seconds, max_length, allow_empty=True)


def model_of(official: Official, options: argparse.Namespace) -> str:
    """Return the name of the model for a set: the one that was given, or the published BERT of the size."""
    given: str | None = options.model
    return given or f"{SIZES[options.size]}:book_corpus_wiki_en_{'cased' if official.cased else 'uncased'}"


def label_of(name: str) -> str:
    """Return what a row calls a model: its label in the zoo, or that it is a folder of its user.

    Raises:
        UserError: there is no such model.
    """
    folder = local_folder(name)
    if folder is not None:
        return f"folder {folder.resolve().name}"
    return name if is_other_repository(name) else find_model(name).label


def task_of(official: Official, train: Sequence[Any]) -> Task:
    """Return the task of a set."""
    if official.allow_empty:
        return PublishedPairs.of(train)
    return named_task(official.task).of_examples(train)


def trained(
    official: Official, train: list[Any], dev: list[Any], rate: float, seed: int, model: str, checkpoint: Path
) -> tuple[Any, Task, Tokenizer, list[dict[str, float]]]:
    """Fine-tune to the last epoch; return the model, its task, the tokenizer and the records of the epochs."""
    task = task_of(official, train)
    seed_everything(seed)
    encoder, tokenizer = get_model(model)
    head = getattr(heads, named_task(official.task).head)(encoder, task.labels)
    settings = Training(
        epochs=official.epochs,
        batch_size=official.batch_size,
        learning_rate=rate,
        seed=seed,
        max_length=named_task(official.task).max_length,
        best_by=LAST,
    )
    history = fine_tune(head, task, tokenizer, train, dev, settings, checkpoint=checkpoint)
    return head, task, tokenizer, list(history)


def chosen_rate(official: Official, train: list[Any], model: str, stem: Path, settings: dict[str, Any]) -> float:
    """Return the rate with the best score on a tenth of the training examples, after training on the others."""
    rest, cut = data.cut_dev(train, CUT)

    def score(rate: float, checkpoint: Path) -> float:
        return trained(official, rest, cut, rate, 0, model, checkpoint)[3][-1][official.score]

    scores = {}
    for rate in RATES:
        one = stem.with_name(f"{stem.name}-{rate:g}")
        scores[rate] = kept_run(one, settings | {"rate": rate}, partial(score, rate, checkpoint_of(one)))
    return max(scores, key=lambda rate: scores[rate])


def checkpoint_of(stem: Path) -> Path:
    """Return the folder of a run's checkpoints."""
    return stem.with_name(f"{stem.name}.checkpoint")


def kept_run(stem: Path, settings: dict[str, Any], work: Callable[[], Any]) -> Any:
    """Return what a run found, from its file or by running it; its checkpoint goes once the file is there."""
    found = kept(stem.with_name(f"{stem.name}.json"), settings, work)
    shutil.rmtree(checkpoint_of(stem), ignore_errors=True)
    return found


def run(
    official: Official, train: list[Any], rate: float, seed: int, options: argparse.Namespace, stem: Path
) -> dict[str, Any]:
    """Fine-tune once; return the scores of each part with their standard errors, and how the epochs went."""
    parts = {part: read(options.data)[: options.limit] for part, (read, _, _) in official.scored.items()}
    first = next(iter(parts.values()))
    model, task, tokenizer, history = trained(
        official, train, first, rate, seed, model_of(official, options), checkpoint_of(stem)
    )
    max_length = named_task(official.task).max_length
    scored: dict[str, Any] = {}
    for part, examples in parts.items():
        inputs = task.inputs(examples, tokenizer, max_length)
        outputs = compute_outputs(model, inputs, tokenizer)
        error = standard_error(task, examples, inputs, outputs, official.score)
        scored[part] = {
            "scores": task.score(examples, inputs, outputs),
            "standard error": error,
            "examples": len(examples),
        }
    for name, member in official.server.items() if options.submit else ():
        texts = glue_server.texts(unpacked(member, options.data), official.columns, official.score == "spearman")
        predictions = predict(model, server_task(task), tokenizer, texts[: options.limit], max_length)
        glue_server.write(stem.parent, name, [glue_server.answer(name, said) for said in predictions])
    config = model.bert.config
    return {
        "parts": scored,
        "history": history,
        "layers": config.num_hidden_layers,
        "width": config.hidden_size,
        "parameters": sum(weight.numel() for weight in model.bert.parameters()),
    }


def server_task(task: Task) -> Task:
    """Return a task that takes the texts of the server as they are: every row needs its answer, empty or not."""
    return PublishedPairs(task.labels) if isinstance(task, PairClassification) else task


def measure(name: str, options: argparse.Namespace, record: Record) -> tuple[dict[str, Any], bool]:
    """Return the rows of a set, one for each part that is scored, and whether they are of the published files."""
    official = SETS[name]
    found_digests, as_published = digests(official, options.data)
    train = official.train(options.data)[: options.limit]
    model = model_of(official, options)
    label = label_of(model)
    folder = options.runs / re.sub(r"\W+", "-", label) / (f"limit-{options.limit}" if options.limit else "whole")
    settings = {"model": model, "limit": options.limit, "sha256": found_digests}
    rate = official.learning_rate
    if options.choose:
        rate = chosen_rate(official, train, model, folder / f"choose-{name}", settings)
    settings |= {"rate": rate, "submit": bool(options.submit)}
    runs = []
    for seed in options.seeds:
        stem = folder / f"seed-{seed}" / name
        work = partial(run, official, train, rate, seed, options, stem)
        runs.append(kept_run(stem, settings | {"seed": seed}, work))
    if options.submit:
        submit(official, folder / f"seed-{options.seeds[0]}", options)
    notes = {
        "train": len(train),
        "rate": rate,
        "rate chosen on": f"a tenth of train, among {RATES}" if options.choose else "nothing: fixed before",
        "epochs": official.epochs,
        "batch size": official.batch_size,
        "sha256": found_digests,
        "model": {key: runs[0][key] for key in ("layers", "width", "parameters")},
        "run": record.stamp(),
    }
    rows = {
        f"{name}, {part}": summary(official, part, [one["parts"][part] for one in runs]) for part in official.scored
    }
    return {label: {row: found | notes for row, found in rows.items()}}, as_published


def summary(official: Official, part: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scores of a part over seeds, the standard error from its examples, and the published numbers."""
    _, board, column = official.scored[part]
    sizes = ("BERT-base", "BERT-large") if board else ()
    return {
        "score": official.score,
        **spread([one["scores"][official.score] for one in found]),
        "median": statistics.median(one["scores"][official.score] for one in found),
        "standard error of examples": statistics.mean(one["standard error"] for one in found),
        "examples": found[0]["examples"],
        "all scores": [one["scores"] for one in found],
        "paper": {size: published(board).value(size, column) for size in sizes},
    }


def submit(official: Official, folder: Path, options: argparse.Namespace) -> None:
    """Copy the files for GLUE's server into the folder that the user named, and pack them once all are there."""
    options.submit.mkdir(parents=True, exist_ok=True)
    for name in official.server:
        shutil.copyfile(folder / f"{name}.tsv", options.submit / f"{name}.tsv")
    path = unpacked(Member(WNLI, "WNLI/test.tsv"), options.data)
    count = len(glue_server.texts(path, ("sentence1", "sentence2")))
    glue_server.write(options.submit, "WNLI", [glue_server.WNLI_ANSWER] * count)
    missing = glue_server.pack(options.submit)
    print(f"{options.submit}: submission.zip written" if not missing else f"still missing: {', '.join(missing)}")


def written(record: Record, rows: dict[str, Any]) -> None:
    """Put the rows into the record's file, where those of other models and sets stay."""
    before = json.loads(record.path.read_text(encoding="utf-8"))["metrics"] if record.path.is_file() else {}
    models = {**before, **rows}
    record.write({model: before.get(model, {}) | rows.get(model, {}) for model in models}, scored="dev where not named")


def sets_of(options: argparse.Namespace) -> list[str]:
    """Return the sets to measure: those that were named, or all that are here or can be downloaded.

    Raises:
        UserError: CoNLL-2003 was named and is not here.
    """
    if options.sets:
        if "conll2003" in options.sets:
            check_conll()
        return list(options.sets)
    if data.is_sample("conll2003"):
        print("conll2003 is left out: it can't be downloaded; its three files belong into $D2LBERT_DATA/conll2003_ner")
        return [name for name in SETS if name != "conll2003"]
    return list(SETS)


def check(options: argparse.Namespace) -> None:
    """Refuse options that would fail later, or say the wrong thing.

    Raises:
        UserError: there is no such model, or --limit is too small.
    """
    label_of(model_of(SETS["rte"], options))
    if options.limit is not None and options.limit < FEWEST:
        raise UserError(f"--limit {options.limit} leaves too little to train and to score: give at least {FEWEST}")


def main() -> None:
    """Measure the sets; each goes into ``results/finetuning/official.json`` as it ends."""
    parser = command_line(__doc__)
    parser.add_argument("--size", default="base", choices=list(SIZES), help="of the published BERT")
    parser.add_argument("--model", help="another model: a name of the zoo or a folder, for every set")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), help="default: all that can be had")
    add_seeds(parser, (0,))
    parser.add_argument("--choose", action="store_true", help="find the learning rate on a tenth of train")
    parser.add_argument("--limit", type=int, help="so many examples of each part, to try it out")
    parser.add_argument("--data", type=Path, default=cache_folder() / "official", help="where the archives are, or go")
    parser.add_argument("--submit", type=Path, help="a folder for the files of GLUE's server")
    add_runs(parser, "finetuning/official")
    options = parser.parse_args()
    try:
        check(options)
        for name in sets_of(options):
            record = Record("finetuning/official", ["torch", "d2lbert"], options.seeds)
            rows, as_published = measure(name, options, record)
            if options.limit or not as_published:
                record.path = options.runs / "trial.json"
                print(f"{name}: a trial, not a result: {'--limit' if options.limit else 'other files than published'}")
            written(record, rows)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
