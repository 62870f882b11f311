"""The twelve universal parts of speech (Petrov, Das and McDonald 2012), and which of them each tag of Brown is.

The tags of Brown are described in its manual (Francis and Kucera 1979). The table here was written for this book.
"""

from __future__ import annotations

import re

from d2lbert.errors import UserError

ADJECTIVE, ADPOSITION, ADVERB, CONJUNCTION, DETERMINER, NOUN = "ADJ", "ADP", "ADV", "CONJ", "DET", "NOUN"
NUMERAL, PARTICLE, PRONOUN, VERB, PUNCTUATION, OTHER = "NUM", "PRT", "PRON", "VERB", ".", "X"

_TAGS = {
    ADJECTIVE: "ap jj jjr jjs jjt od",  # many, good, better, chief, best, third
    ADPOSITION: "cs in",  # because, of
    ADVERB: "* ql qlp rb rbr rbt rn wql wrb",  # not, very, enough, well, better, best, here, how, where
    CONJUNCTION: "cc",
    DETERMINER: "abl abn abx at dt dti dts dtx pp$ wdt wp$",  # such, all, both, the, this, some, my, whose
    NOUN: "nn nns np nps nr nrs pn",  # nr: Friday, pn: everyone
    NUMERAL: "cd",
    PARTICLE: "ex rp to uh",  # there, up, to (go), oh
    PRONOUN: "pp$$ ppl ppls ppo pps ppss wpo wps",  # mine, myself, ourselves, me, it, they, whom, who
    VERB: "be bed bedz beg bem ben ber bez do dod doz hv hvd hvg hvn hvz md vb vbd vbg vbn vbz",
    PUNCTUATION: ", . : -- ( ) `` '' '",
    OTHER: "nil",
}
_UNIVERSAL = {tag: part for part, tags in _TAGS.items() for tag in tags.split()}
UNIVERSAL_TAGS = tuple(sorted(_TAGS))


def universal(tag: str) -> str:
    """Return the universal part of speech of a tag of the Brown corpus, such as ``"NOUN"`` of ``np-tl``.

    That a word stands in a title or headline or is cited (``-tl``, ``-hl``, ``-nc``) does not matter. A foreign word
    (``fw-``) is ``X``. Of two words in one, such as "it's" (``pps+bez``), the first counts; so it does where a word is
    negated (``bez*``) or a genitive (``np$``).

    Raises:
        UserError: the corpus has no such tag.
    """
    bare = re.sub(r"(-(tl|hl|nc))+$", "", tag.lower())
    if bare.startswith("fw-"):
        return OTHER
    first = bare.split("+")[0]
    for form in (first, first.removesuffix("*"), first.removesuffix("$")):
        if form in _UNIVERSAL:
            return _UNIVERSAL[form]
    raise UserError(f"{tag!r} is no tag of the Brown corpus: correct it")
