"""Fine-tune the 6-layer MiniLM to answer questions by words of a text, and measure it on articles that it never saw.

It learns from SQuADShifts (new Wikipedia) and from the questions with an answer in half of SQuAD 2.0's dev set;
held-out articles of new Wikipedia choose the epoch. The test is XQuAD's English articles that are not in that half.
Then it goes on with all questions of the half; some of the held-out articles choose the threshold for "no answer", the
others measure it.
The state is kept after every epoch, and what was measured after every seed: the same command goes on where it was
stopped.

    python -m benchmarks.finetuning.question_answering    # needs D2LBERT_DATA
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command_line import add_precision, add_seeds, command_line
from benchmarks.questions import DATA_SETS, LONGEST, SPANS, by_group, f1_of_each, read_parts
from benchmarks.record import Record, kept, spread
from d2lbert import get_model, metrics
from d2lbert.data.examples import Question
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForQuestionAnswering
from d2lbert.torch.runtime import best_device, seed_everything
from d2lbert.torch.training.evaluation import evaluate, predict
from d2lbert.torch.training.finetuning import Training, fine_tune

NO_ANSWER = Training(epochs=1, batch_size=8, learning_rate=1e-4, max_length=256)
DEMO = Question("Where is AMLC held?", "AMLC 2019 is held in Seattle.")
MISTAKES = 40
AROUND = 70  # characters shown on each side of the right answer


def people(questions: Sequence[Question]) -> dict[str, float]:
    """Score each question's last person by the others, where at least three answered: how far people agree."""
    several = [[answer.text for answer in question.answers or ()] for question in questions]
    several = [texts for texts in several if len(texts) >= 3]
    return {**metrics.squad([texts[:-1] for texts in several], [texts[-1] for texts in several]), "n": len(several)}


def question_word(question: Question) -> str:
    """Return the first question word in it."""
    words = question.question.lower().replace("?", " ").split()
    return next((word for word in words if word in ("who", "when", "where", "why", "how", "which", "what")), "other")


def answer_length(question: Question) -> str:
    """Return how many words the first right answer has, in classes."""
    words = len((question.answers or ())[0].text.split())
    return "1" if words == 1 else "2-3" if words <= 3 else "4-7" if words <= 7 else "8 or more"


def analysis(questions: Sequence[Question], answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return where the model is right and where it is wrong, with examples."""
    golds = [[answer.text for answer in question.answers or ()] for question in questions]
    f1 = f1_of_each(questions, [answer["answer"] for answer in answers])
    in_list = [
        max(metrics.squad_f1(one["answer"], gold) for one in answer["n_best"])
        for answer, gold in zip(answers, golds, strict=True)
    ]
    wrong = [place for place, score in enumerate(f1) if score < 1]
    shown = wrong[:: max(1, len(wrong) // MISTAKES)][:MISTAKES]
    return {
        "best of the list, f1": float(np.mean(in_list)),
        "share with no word right": float(np.mean([score == 0 for score in f1])),
        "by question word": by_group(questions, f1, question_word),
        "by answer length in words": by_group(questions, f1, answer_length),
        "calibration": calibration(answers, f1),
        "mistakes": [mistake(questions[place], answers[place], f1[place]) for place in shown],
    }


def calibration(answers: Sequence[dict[str, Any]], f1: Sequence[float]) -> list[dict[str, float]]:
    """Return for five classes of the answer's probability its mean, the share that is exactly right, and the number."""
    probabilities, right = np.array([answer["probability"] for answer in answers]), np.array(f1) == 1
    classes = np.minimum((probabilities * 5).astype(int), 4)
    return [
        {
            "probability": float(probabilities[classes == one].mean()),
            "exact": float(right[classes == one].mean()),
            "n": int((classes == one).sum()),
        }
        for one in range(5)
        if (classes == one).any()
    ]


def mistake(question: Question, answer: dict[str, Any], f1: float) -> dict[str, Any]:
    """Return a short account of a wrong answer."""
    gold = (question.answers or ())[0]
    begin, end = max(0, gold.start - AROUND), gold.start + len(gold.text) + AROUND
    return {
        "question": question.question,
        "excerpt": question.context[begin:end],
        "right": gold.text,
        "answer": answer["answer"],
        "distance": answer["start"] - gold.start,
        "probability": round(answer["probability"], 3),
        "f1": round(f1, 3),
    }


def without_dropout(encoder: BertModel) -> BertModel:
    """Return the same encoder without dropout: two epochs hardly overfit, and a step is faster by half."""
    sizes = dataclasses.replace(encoder.config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    copy = BertModel(sizes)
    copy.load_state_dict(encoder.state_dict())
    return copy


def learn_spans(
    seed: int, parts: dict[str, list[Question]], settings: Training, out: Path
) -> tuple[BertForQuestionAnswering, WordPiece, dict[str, Any]]:
    """Train on questions with an answer and measure; return the model too."""
    seed_everything(seed)
    encoder, tokenizer = get_model("minilm")
    model, task = BertForQuestionAnswering(without_dropout(encoder)), QuestionAnswering()
    settings = dataclasses.replace(settings, seed=seed)
    history = fine_tune(
        model, task, tokenizer, parts["train"], parts["dev"], settings, best_device(), checkpoint=out / f"spans-{seed}"
    )
    found: dict[str, Any] = {"epochs": history, "dev": max(history, key=lambda record: record["f1"])["f1"]}
    for name in ("xquad", "amazon reviews", "reddit"):
        found[name], answers = evaluate(model, task, tokenizer, parts[name], settings.max_length, best_device())
        if name == "xquad":
            found["analysis"] = analysis(parts[name], answers)
    found["demo"] = predict(model, task, tokenizer, [DEMO], settings.max_length, best_device())[0]
    model.cpu().save_pretrained(out / f"model-{seed}")
    tokenizer.save_pretrained(out / f"model-{seed}")
    return model, tokenizer, found


def learn_no_answer(
    seed: int,
    model: BertForQuestionAnswering,
    tokenizer: WordPiece,
    parts: dict[str, list[Question]],
    settings: Training,
    out: Path,
) -> dict[str, Any]:
    """Go on with questions that may have no answer; tune the threshold, then measure."""
    settings = dataclasses.replace(settings, seed=seed, best_by="best_f1")
    task, (train, tuning, test) = (
        QuestionAnswering(0.0),
        (parts[f"no answer: {name}"] for name in ("train", "tuning", "test")),
    )
    history = fine_tune(
        model, task, tokenizer, train, tuning, settings, best_device(), checkpoint=out / f"no-answer-{seed}"
    )
    tuned = max(history, key=lambda record: record["best_f1"])
    model.null_threshold = tuned["best_threshold"]
    chosen = QuestionAnswering(model.null_threshold)
    scores, answers = evaluate(model, chosen, tokenizer, test, settings.max_length, best_device())
    said_none = [answer["answer"] == "" for answer in answers]
    right = [none == (not question.answers) for none, question in zip(said_none, test, strict=True)]
    model.cpu().save_pretrained(out / f"model-no-answer-{seed}")
    tokenizer.save_pretrained(out / f"model-no-answer-{seed}")
    return {
        "epochs": history,
        "threshold": model.null_threshold,
        "test": {**scores, "decision_accuracy": float(np.mean(right)), "share_impossible": impossible(test)},
    }


def impossible(questions: Sequence[Question]) -> float:
    """Return the share of questions without an answer: what the answer "no answer" to everything earns."""
    return float(np.mean([not question.answers for question in questions]))


def run(seed: int, parts: dict[str, list[Question]], spans: Training, no_answer: Training, out: Path) -> dict[str, Any]:
    """Train with one seed, first on spans, then on questions that may have no answer; return what was measured."""
    model, tokenizer, found = learn_spans(seed, parts, spans, out)
    return {**found, "no answer": learn_no_answer(seed, model, tokenizer, parts, no_answer, out)}


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return means and spreads over the seeds, and the first seed's analysis and demonstration."""
    numbers: dict[str, Any] = {"dev f1": spread([run["dev"] for run in runs])}
    for name in ("xquad", "amazon reviews", "reddit"):
        numbers[name] = {key: spread([run[name][key] for run in runs]) for key in ("f1", "exact_match")}
    second = [run["no answer"] for run in runs]
    numbers["no answer"] = {key: spread([run["test"][key] for run in second]) for key in second[0]["test"]}
    numbers["no answer"]["threshold"] = spread([run["threshold"] for run in second])
    return {**numbers, "demo": runs[0]["demo"], "analysis": runs[0]["analysis"], "epochs": [r["epochs"] for r in runs]}


def main() -> None:
    """Measure and write ``results/finetuning/question_answering.json``, after each seed anew."""
    parser = command_line(__doc__)
    add_seeds(parser, [0])
    parser.add_argument("--out", type=Path, default=Path("runs/question_answering"), help="checkpoints and models")
    parser.add_argument("--size", type=int, help="questions of each part, to try the script out; default all")
    add_precision(parser)
    arguments = parser.parse_args()
    spans, no_answer = (dataclasses.replace(one, precision=arguments.precision) for one in (SPANS, NO_ANSWER))
    record = Record(
        "finetuning/question_answering", ["torch", "d2lbert"], arguments.seeds, data_sets=DATA_SETS, size=arguments.size
    )
    parts = read_parts(get_model("minilm")[1], arguments.size)
    notes = {
        "data": {name: len(questions) for name, questions in parts.items()},
        "settings": {"spans": vars(spans), "no answer": vars(no_answer), "longest in training": LONGEST},
        "people": people(parts["dev"]),
        "demo": {"question": DEMO.question, "text": DEMO.context},
        "paper": {
            "people, SQuAD 1.1 test (Rajpurkar et al. 2016)": {"f1": 0.868, "exact_match": 0.770},
            "BERT-base, 87,599 questions, SQuAD 1.1 dev (Devlin et al. 2019, table 2)": {
                "f1": 0.885,
                "exact_match": 0.808,
            },
        },
    }
    settings = {"data": notes["data"], "settings": notes["settings"]}
    runs: list[dict[str, Any]] = []
    for seed in arguments.seeds:
        work = partial(run, seed, parts, spans, no_answer, arguments.out)
        runs.append(kept(arguments.out / f"run-{seed}.json", settings, work))
        scores = {name: runs[-1][name] for name in ("dev", "xquad", "amazon reviews", "reddit", "demo")}
        print(seed, scores, runs[-1]["no answer"], flush=True)
        record.write(summary(runs), **notes)


if __name__ == "__main__":
    main()
