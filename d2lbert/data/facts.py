"""Small texts to learn reading from in a minute: invented facts with questions, and questions known from talks.

Nothing here is a benchmark. The facts follow a few patterns, so a model that answers them has not learned to read; it
has learned which words a question asks for.
"""

from __future__ import annotations

import dataclasses
import itertools
import re

import numpy as np

from d2lbert.data.examples import Answer, Question

_PEOPLE = ["Anna", "Omar", "Mei", "Carlos", "Ingrid", "Tariq", "Lucy", "Pavel", "Noor", "Jonas"]
_STRANGERS = ["Rosa", "Kofi", "Elena", "Hiro", "Sara", "Diego"]  # for dev
_PLACES = ["Lisbon", "Oslo", "Cairo", "Lima", "Prague", "Kyoto", "Nairobi", "Dublin", "Hanoi", "Quito"]
_FAR_PLACES = ["Athens", "Bergen", "Tunis", "Porto", "Riga", "Delhi"]  # for dev
_BLANKS = {
    "year": [str(year) for year in range(1950, 2020, 3)],
    "count": ["12", "30", "45", "200", "350", "7 million", "90 million", "120 million"],
    "work": [
        "a baker", "a nurse", "a pilot", "a young lawyer", "a teacher of music", "a farmer", "a judge", "a painter",
        "an engineer",
    ],
}  # fmt: skip
# A sentence, a question that it answers, and which of its blanks is the answer.
_FACTS = (
    ("{who} lives in {place}.", "Where does {who} live?", "place"),
    ("{who} was born in {year}.", "When was {who} born?", "year"),
    ("{who} is {work}.", "What is {who}?", "work"),
    ("The farm of {who} has {count} trees.", "How many trees does the farm of {who} have?", "count"),
    ("In {year} {who} moved to {place}.", "When did {who} move?", "year"),
    ("In {year} {who} moved to {place}.", "Where did {who} move in {year}?", "place"),
    ("The meeting of {year} was opened by {who} in {place}.", "Who opened the meeting?", "who"),
    ("The meeting of {year} was opened by {who} in {place}.", "Where is the meeting?", "place"),
    ("The prize of {year} went to {who} from {place}.", "Who got the prize in {year}?", "who"),
    ("The firm of {who} was founded in {year}.", "When was the firm of {who} founded?", "year"),
)
_SENTENCES = 3  # of a text


def write_facts(count: int, chance: np.random.Generator, unseen: bool = False, without: float = 0.25) -> list[Question]:
    """Return texts of three facts, each with a question about one of them.

    Args:
        count: of texts.
        chance: what is drawn from.
        unseen: take people and places that the other texts do not have.
        without: the share of questions that ask for a fact that the text lacks; their ``answers`` are empty.
    """
    people, places = (_STRANGERS, _FAR_PLACES) if unseen else (_PEOPLE, _PLACES)
    lists = {"who": people, "place": places, **_BLANKS}
    return [_write_text(lists, chance, without) for _ in range(count)]


def _write_text(lists: dict[str, list[str]], chance: np.random.Generator, without: float) -> Question:
    """Return one text with its question."""
    mixed = {name: chance.permutation(values) for name, values in lists.items()}
    kinds = [_FACTS[kind] for kind in chance.permutation(len(_FACTS))]
    # No two sentences of one kind: a question without a name in it could be asked of both.
    facts = list({fact[0]: fact for fact in kinds}.values())[: _SENTENCES + 1]
    fills = [{name: str(values[place]) for name, values in mixed.items()} for place in range(len(facts))]
    sentences = [fact[0].format(**fill) for fact, fill in zip(facts, fills, strict=True)][:_SENTENCES]
    asked = _SENTENCES if chance.random() < without else int(chance.integers(_SENTENCES))
    _, question, blank = facts[asked]
    answers: tuple[Answer, ...] = ()
    if asked < _SENTENCES:
        answer = fills[asked][blank]
        start = sum(len(sentence) + 1 for sentence in sentences[:asked]) + sentences[asked].index(answer)
        answers = (Answer(answer, start),)
    return Question(question.format(**fills[asked]), " ".join(sentences), answers)


def _talk(context: str, question: str, answer: str) -> Question:
    return Question(question, context, (Answer(answer, context.index(answer)),))


_NUS = (
    "The National University of Singapore, NUS for short, is the national research university of Singapore. It was "
    "founded in 1905 as a government medical school, which makes it the oldest institution of higher education in the "
    "country."
)
_BERT = (
    "BERT was published in two sizes. BERT-base has 12 layers and 110 million parameters. BERT-large has 24 layers and "
    "340 million parameters, and needs a larger machine."
)
_GLUONNLP = (
    "GluonNLP is a toolkit for natural language processing. It was built on MXNet and offers trained models, data sets "
    "and scripts. Its authors wanted to make published results easy to repeat."
)
TALKS = (
    _talk("AMLC 2019 is held in Seattle.", "Where is AMLC held?", "Seattle"),
    _talk(_NUS, "When was NUS founded?", "1905"),
    _talk(_NUS, "What is NUS?", "the national research university of Singapore"),
    _talk(_BERT, "How many parameters does BERT-large have?", "340 million"),
    _talk(_GLUONNLP, "What was GluonNLP built on?", "MXNet"),
    _talk(_GLUONNLP, "What did the authors of GluonNLP want?", "to make published results easy to repeat"),
)

# What a misleading sentence says where the question has its question word.
_FALSE = {
    "how many": "seventeen",
    "how much": "seventeen",
    "who": "Arthur Penn",
    "whom": "Arthur Penn",
    "when": "in 1822",
    "where": "in Chicago",
    "why": "because of the cold",
    "how": "by night train",
    "which": "the green",
    "what": "the blue house",
}
_ASKS = re.compile(r"\b(" + "|".join(_FALSE) + r")\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=\s)[A-Z]\S*")  # the first word of a question is no name
_OTHER_NAMES = ("Brandt", "Norvik", "Tamsin", "Okoro")


def mislead(question: Question) -> Question | None:
    """Return the question with a sentence behind its text that looks like an answer and is none.

    The sentence is the question itself, with a false answer for the question word, other names and other numbers: the
    first steps of Jia and Liang (2017, section 3.2). They had people mend its grammar; here nobody does. The right
    answers stay what and where they were. None where the question has no question word, or neither a name nor a
    number: then the sentence would be about the same thing and contradict the text.
    """
    asked = question.question.rstrip(" ?.")
    names = itertools.cycle(_OTHER_NAMES)
    renamed = re.sub(r"\d+", lambda found: str(int(found[0]) + 7), asked)
    renamed = _NAME.sub(lambda found: next(names), renamed)
    sentence, answered = _ASKS.subn(lambda found: _FALSE[found[0].lower()], renamed, count=1)
    if renamed == asked or not answered:
        return None
    context = f"{question.context} {sentence[:1].upper()}{sentence[1:]}."
    return dataclasses.replace(question, context=context)
