"""Ask a model of ``question_answering.py`` more: does the place of the answer matter, does a false sentence?

The questions are those of XQuAD that the model was tested on. Quarter 1 of a text is its beginning. A false sentence is
written by a rule (:func:`d2lbert.data.facts.mislead`) and stands behind the text. The questions of talks are asked too.

    python -m benchmarks.finetuning.question_answering_probes --model DIR    # needs D2LBERT_DATA
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command_line import command_line
from benchmarks.questions import SPANS, by_group, f1_of_each, read_parts
from benchmarks.record import Record
from d2lbert.data.examples import Question
from d2lbert.data.facts import TALKS, mislead
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.text import WordPiece
from d2lbert.torch.heads import BertForQuestionAnswering
from d2lbert.torch.runtime import best_device
from d2lbert.torch.training.evaluation import predict

SHOWN = 12  # misled answers that the result file keeps


def score(questions: Sequence[Question], answers: Sequence[dict[str, Any]]) -> list[float]:
    """Return the F1 of each answer."""
    return f1_of_each(questions, [answer["answer"] for answer in answers])


def quarter(question: Question) -> str:
    """Return the quarter of the text, counted from 1, in which the first right answer begins."""
    return str(1 + 4 * (question.answers or ())[0].start // len(question.context))


def misled(questions: Sequence[Question], before: Sequence[dict[str, Any]], ask: Any) -> dict[str, Any]:
    """Return F1 without and with the false sentence, and how often the answer was taken from it."""
    changed = [mislead(question) for question in questions]
    kept = [place for place, one in enumerate(changed) if one is not None]
    asked = [one for one in changed if one is not None]
    after = ask(asked)
    lengths = [len(questions[place].context) for place in kept]
    taken = [answer["start"] >= length for answer, length in zip(after, lengths, strict=True)]
    shown = [place for place, fooled in enumerate(taken) if fooled]
    shown = shown[:: max(1, len(shown) // SHOWN)][:SHOWN]
    return {
        "n": len(kept),
        "f1 before": float(np.mean(score([questions[place] for place in kept], [before[place] for place in kept]))),
        "f1 after": float(np.mean(score(asked, after))),
        "share of answers from the false sentence": float(np.mean(taken)),
        "examples": [
            {
                "question": asked[place].question,
                "false sentence": asked[place].context[lengths[place] :].strip(),
                "before": before[kept[place]]["answer"],
                "after": after[place]["answer"],
            }
            for place in shown
        ],
    }


def talks(answers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each question of talks with the right and the given answer."""
    return [
        {
            "question": question.question,
            "right": (question.answers or ())[0].text,
            "answer": answer["answer"],
            "probability": answer["probability"],
        }
        for question, answer in zip(TALKS, answers, strict=True)
    ]


def main() -> None:
    """Measure and write ``results/finetuning/question_answering_probes.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--model", type=Path, default=Path("runs/question_answering/model-0"))
    parser.add_argument("--size", type=int, help="questions, to try the script out; default all")
    arguments = parser.parse_args()
    record = Record(
        "finetuning/question_answering_probes", ["torch", "d2lbert"], data_sets=["xquad"], size=arguments.size
    )
    model = BertForQuestionAnswering.from_pretrained(arguments.model).to(best_device())
    tokenizer, task = WordPiece.from_pretrained(arguments.model), QuestionAnswering()
    questions = read_parts(tokenizer, arguments.size)["xquad"]

    def ask(asked: Sequence[Question]) -> list[dict[str, Any]]:
        return predict(model, task, tokenizer, asked, SPANS.max_length, best_device())

    before = ask(questions)
    found = {
        "talks": talks(ask(TALKS)),
        "f1": float(np.mean(score(questions, before))),
        "by quarter of the text": by_group(questions, score(questions, before), quarter),
        "misled": misled(questions, before, ask),
    }
    record.write(found, data={"xquad": len(questions)}, model="the first seed of finetuning/question_answering")


if __name__ == "__main__":
    main()
