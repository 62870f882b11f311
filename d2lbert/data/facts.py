"""Small texts to learn reading from in a minute: invented facts with questions, and questions known from talks.

Nothing here is a benchmark. The facts follow a few patterns, so a model that answers them has not learned to read; it
has learned which words each kind of question asks for.
"""

from __future__ import annotations

import dataclasses
import itertools
import re

import numpy as np

from d2lbert.data.examples import Answer, Question

_PEOPLE = ["Anna", "Omar", "Mei", "Carlos", "Ingrid", "Tariq", "Lucy", "Pavel", "Noor", "Jonas"]
_UNSEEN_PEOPLE = ["Rosa", "Kofi", "Elena", "Hiro", "Sara", "Diego"]  # for dev
_PLACES = ["Lisbon", "Oslo", "Cairo", "Lima", "Prague", "Kyoto", "Nairobi", "Dublin", "Hanoi", "Quito"]
_UNSEEN_PLACES = ["Athens", "Bergen", "Tunis", "Porto", "Riga", "Delhi"]  # for dev
_BLANKS = {
    "year": [str(year) for year in range(1950, 2020, 3)],
    "count": ["12", "30", "45", "200", "350", "7 million", "90 million", "120 million"],
    "work": [
        "a baker", "a nurse", "a pilot", "a young lawyer", "a teacher of music", "a farmer", "a judge", "a painter",
        "an engineer",
    ],
}  # fmt: skip
# A sentence, a question that it answers, and the blank that holds the answer.
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
_SENTENCES = 3  # in a text


def generate_facts(
    count: int, random: np.random.Generator, unseen: bool = False, unanswerable: float = 0.25
) -> list[Question]:
    """Generate texts of three facts, each with a question about one fact.

    Args:
        count: the number of texts.
        random: the generator that makes all random choices.
        unseen: use people and places that do not occur in the other texts.
        unanswerable: the fraction of questions about a fact that the text lacks; their ``answers`` are empty.
    """
    people, places = (_UNSEEN_PEOPLE, _UNSEEN_PLACES) if unseen else (_PEOPLE, _PLACES)
    lists = {"who": people, "place": places, **_BLANKS}
    return [_generate_text(lists, random, unanswerable) for _ in range(count)]


def _generate_text(lists: dict[str, list[str]], random: np.random.Generator, unanswerable: float) -> Question:
    """Return one text with its question."""
    shuffled = {name: random.permutation(values) for name, values in lists.items()}
    kinds = [_FACTS[kind] for kind in random.permutation(len(_FACTS))]
    # No two sentences of one kind: a question without a name in it could refer to either.
    facts = list({fact[0]: fact for fact in kinds}.values())[: _SENTENCES + 1]
    fillers = [{name: str(values[index]) for name, values in shuffled.items()} for index in range(len(facts))]
    sentences = [fact[0].format(**filler) for fact, filler in zip(facts, fillers, strict=True)][:_SENTENCES]
    target = _SENTENCES if random.random() < unanswerable else int(random.integers(_SENTENCES))
    _, question, blank = facts[target]
    answers: tuple[Answer, ...] = ()
    if target < _SENTENCES:
        answer = fillers[target][blank]
        start = sum(len(sentence) + 1 for sentence in sentences[:target]) + sentences[target].index(answer)
        answers = (Answer(answer, start),)
    return Question(question.format(**fillers[target]), " ".join(sentences), answers)


def _talk(context: str, question: str, answer: str) -> Question:
    return Question(question, context, (Answer(answer, context.index(answer)),))


# The texts and questions of five slides, word for word. The text on NUS is Wikipedia's (CC BY-SA).
_NUS = (
    "The National University of Singapore (NUS) is the national research university of Singapore. Founded in 1905 as "
    "the Straits Settlements and Federated Malay States Government Medical School, NUS is the oldest higher education "
    "institution in Singapore. It is consistently ranked within the top 20 universities in the world and is considered "
    "to be the best university in the Asia-Pacific. NUS is a comprehensive research university, offering a wide range "
    "of disciplines, including the sciences, medicine and dentistry, design and environment, law, arts and social "
    "sciences, engineering, business, computing and music at both the undergraduate and postgraduate levels."
)
_DISCIPLINES = (
    "sciences, medicine and dentistry, design and environment, law, arts and social sciences, engineering, business, "
    "computing and music"
)
_BERT = (
    "BERT-large is really big... it has 24 layers and an embedding size of 1,024, for a total of 340M parameters! "
    "Altogether it is 1.34GB, so expect it to take a couple minutes to download to your Colab instance."
)
_GLUONNLP = (
    "GluonNLP provides implementations of the state-of-the-art (SOTA) deep learning models in NLP, and build blocks "
    "for text data pipelines and models. It is designed for engineers, researchers, and students to fast prototype "
    "research ideas and products based on these models."
)
TALKS = (
    _talk("AMLC 2019 is held in Seattle.", "Where is AMLC held?", "Seattle"),
    _talk(_NUS, "What can we learn in NUS?", _DISCIPLINES),
    _talk(_NUS, "What does NUS mean?", "National University of Singapore"),
    _talk(_BERT, "How many parameters does BERT-large have?", "340M"),
    _talk(_GLUONNLP, "Who shall use GluonNLP?", "engineers, researchers, and students"),
)

# What a misleading sentence says in place of the question word.
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
_QUESTION_WORD = re.compile(r"\b(" + "|".join(_FALSE) + r")\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=\s)[A-Z]\S*")  # the first word of a question is no name
_OTHER_NAMES = ("Brandt", "Norvik", "Tamsin", "Okoro")


def mislead(question: Question) -> Question | None:
    """Return the question with a sentence appended to its text that looks like an answer but is not.

    The sentence is the question itself, with a false answer for the question word, other names and other numbers: the
    first steps of Jia and Liang (2017, section 3.2). They had people correct its grammar; here nobody does. The right
    answers and their positions do not change.

    Returns:
        None where the question has no question word, or neither a name nor a number: then the sentence would be about
        the same thing and contradict the text.
    """
    wording = question.question.rstrip(" ?.")
    names = itertools.cycle(_OTHER_NAMES)
    renamed = re.sub(r"\d+", lambda match: str(int(match[0]) + 7), wording)
    renamed = _NAME.sub(lambda match: next(names), renamed)
    sentence, replacements = _QUESTION_WORD.subn(lambda match: _FALSE[match[0].lower()], renamed, count=1)
    if renamed == wording or not replacements:
        return None
    context = f"{question.context} {sentence[:1].upper()}{sentence[1:]}."
    return dataclasses.replace(question, context=context)
