"""WordPiece by itself: small cases to check by eye, folders, errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import BertTokenizerFast

from d2lbert import UserError, zoo
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.text.wordpiece import longest_match

PIECES = ["un", "##aff", "##able", "##a", "##ble", "play", "##ing", "able", ",", "!"]


@pytest.fixture
def small() -> WordPiece:
    return WordPiece([*SPECIAL_TOKENS, *PIECES])


def test_the_longest_piece_is_taken_first(small: WordPiece) -> None:
    assert small.tokenize("unaffable") == ["un", "##aff", "##able"]
    assert small.tokenize("Playing, able!") == ["play", "##ing", ",", "able", "!"]


def test_a_word_that_does_not_fit_is_unknown_as_a_whole(small: WordPiece) -> None:
    assert small.tokenize("unx playing") == ["[UNK]", "play", "##ing"]


def test_greedy_is_not_exhaustive() -> None:
    # "ab" + "##cd" would fit, but the longest first piece is "abc" and then nothing does.
    assert [piece.token for piece in longest_match("abcd", {"ab": 0, "##cd": 1, "abc": 2})] == ["[UNK]"]


def test_a_pair_has_segments_special_tokens_and_offsets_into_each_text(small: WordPiece) -> None:
    encoding = small.encode(" Únaff", "play!")
    assert encoding.tokens == ["[CLS]", "un", "##aff", "[SEP]", "play", "!", "[SEP]"]
    assert encoding.segment_ids == [0, 0, 0, 0, 1, 1, 1]
    assert encoding.offsets == [(0, 0), (1, 3), (3, 6), (0, 0), (0, 4), (4, 5), (0, 0)]
    assert encoding.special == [True, False, False, True, False, False, True]
    assert encoding.ids == [small.token_to_id[token] for token in encoding.tokens]
    assert len(encoding) == 7


def test_tokens_between_characters_are_those_that_overlap_them(small: WordPiece) -> None:
    encoding = small.encode("unaff play", "play!")
    assert encoding.tokens == ["[CLS]", "un", "##aff", "play", "[SEP]", "play", "!", "[SEP]"]
    assert encoding.tokens_between(0, 5) == [1, 2]
    assert encoding.tokens_between(1, 3) == [1, 2]  # a part of either piece is enough
    assert encoding.tokens_between(5, 6) == []  # the space
    assert encoding.tokens_between(6, 10) == [3]
    assert encoding.tokens_between(0, 4, segment=1) == [5]
    assert small.encode("unaff play", max_length=4).tokens_between(6, 10) == []  # cut off


def test_a_word_of_100_characters_is_searched_and_one_of_101_is_not() -> None:
    tokenizer = WordPiece([*SPECIAL_TOKENS, "x", "##x"])
    assert tokenizer.tokenize("x" * 100) == ["x"] + ["##x"] * 99
    assert tokenizer.tokenize("x" * 101) == ["[UNK]"]


def test_a_text_of_100000_characters_is_cut(wordpiece: WordPiece) -> None:
    encoding = wordpiece.encode("word " * 20_000, max_length=512)
    assert len(encoding) == 512
    assert encoding.offsets[-2] == (5 * 509, 5 * 509 + 4)


def test_lone_surrogates_are_dropped_in_both_ways(wordpiece: WordPiece) -> None:
    text = "pla\ud800ying \udfff games"
    assert wordpiece.encode(text).tokens == ["[CLS]", "playing", "games", "[SEP]"]
    assert wordpiece.encode(text).offsets[1] == (0, 8)
    assert wordpiece.encode_batch([text]) == [wordpiece.encode(text)]


def test_a_full_store_of_words_changes_nothing(small: WordPiece, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("d2lbert.text.wordpiece._CACHED_WORDS", 2)
    text = "un playing able unaffable un playing"
    assert small.tokenize(text) == [
        *("un", "play", "##ing", "able", "un", "##aff", "##able", "un", "play", "##ing"),
    ]
    assert len(small._cache) <= 2


def test_decode_joins_pieces_and_leaves_out_what_was_added(small: WordPiece) -> None:
    assert small.decode(small.encode("unaffable, playing", "able!").ids) == "unaffable , playing able !"
    assert small.decode([0, small.token_to_id["[MASK]"], small.token_to_id["play"]]) == "[MASK] play"
    assert small.decode([]) == ""


def test_a_bare_batch_is_empty(small: WordPiece) -> None:
    assert small.encode_batch([]) == []


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_folder_comes_back_and_transformers_reads_it(
    wordpiece: WordPiece, tmp_path: Path, lowercase: bool, lines: list[str]
) -> None:
    WordPiece(wordpiece.vocab, lowercase).save_pretrained(tmp_path / "model")
    restored = WordPiece.from_pretrained(tmp_path / "model")
    assert restored.vocab == wordpiece.vocab
    assert restored.lowercase == restored.strip_accents == lowercase
    library = BertTokenizerFast.from_pretrained(tmp_path / "model")
    for line in lines[:200]:
        assert library(line)["input_ids"] == restored.encode(line).ids
    files = ["tokenizer.json", "tokenizer_config.json", "vocab.txt"]
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == files


def test_accents_can_be_kept_apart_from_case(wordpiece: WordPiece, tmp_path: Path) -> None:
    tokenizer = WordPiece([*SPECIAL_TOKENS, "é", "e"], lowercase=True, strip_accents=False)
    assert tokenizer.tokenize("É E") == ["é", "e"]
    tokenizer.save_pretrained(tmp_path)
    assert WordPiece.from_pretrained(tmp_path).tokenize("É E") == ["é", "e"]
    assert [encoding.tokens for encoding in tokenizer.encode_batch(["É E"])] == [["[CLS]", "é", "e", "[SEP]"]]


def test_the_packaged_model_is_read(wordpiece: WordPiece) -> None:
    assert WordPiece.from_pretrained(zoo.locate("minilm")).vocab == wordpiece.vocab


def test_without_a_configuration_case_is_folded_unless_told(small: WordPiece, tmp_path: Path) -> None:
    small.save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    assert WordPiece.from_pretrained(tmp_path).lowercase is True
    assert WordPiece.from_pretrained(tmp_path, lowercase=False).lowercase is False


def test_the_argument_overrules_the_configuration(small: WordPiece, tmp_path: Path) -> None:
    small.save_pretrained(tmp_path)
    cased = WordPiece.from_pretrained(tmp_path, lowercase=False)
    assert (cased.lowercase, cased.strip_accents) == (False, False)


def test_a_windows_file_and_a_missing_last_newline_are_read(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("\r\n".join([*SPECIAL_TOKENS, "a\u2028b"]).encode())
    assert WordPiece.from_file(tmp_path / "vocab.txt").vocab == [*SPECIAL_TOKENS, "a\u2028b"]


def one_line(error: pytest.ExceptionInfo[UserError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        ("\n".join([*SPECIAL_TOKENS, "a", "b", "a"]).encode(), "'a' twice"),
        (
            "\n".join(token for token in (*SPECIAL_TOKENS, "a") if token != "[SEP]").encode(),
            r"lacks the special token \[SEP\]",
        ),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_a_bad_vocabulary_file_is_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(UserError, match=words) as error:
        WordPiece.from_file(tmp_path / "vocab.txt")
    one_line(error)


def test_a_missing_vocabulary_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read the vocabulary .*vocab\.txt") as error:
        WordPiece.from_pretrained(tmp_path)
    one_line(error)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{", r"tokenizer_config\.json is not valid JSON"),
        ("[" * 200_000, r"tokenizer_config\.json is not valid JSON"),
        ("[]", "not a JSON object"),
        ('{"do_lower_case": "false"}', "do_lower_case is 'false'; give true or false, without quotation marks"),
        ('{"strip_accents": "x"}', "strip_accents is 'x'; give true or false"),
        ('{"tokenize_chinese_chars": 0}', "tokenize_chinese_chars is 0; give true or false"),
        ('{"tokenize_chinese_chars": false}', "tokenize_chinese"),
    ],
)
def test_a_bad_configuration_is_one_line(small: WordPiece, tmp_path: Path, config: str, words: str) -> None:
    small.save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(config, encoding="utf-8")
    with pytest.raises(UserError, match=words) as error:
        WordPiece.from_pretrained(tmp_path)
    one_line(error)


@pytest.mark.parametrize(("b", "least"), [(None, 3), ("able", 4)])
def test_max_length_needs_room_for_a_piece(small: WordPiece, b: str | None, least: int) -> None:
    assert len(small.encode("un able", b, max_length=least)) == least
    with pytest.raises(UserError, match=f"max_length {least - 1} is too small.* {least} or more") as error:
        small.encode("un able", b, max_length=least - 1)
    one_line(error)


def test_texts_and_pairs_must_match(small: WordPiece) -> None:
    with pytest.raises(UserError, match="2 texts but 1 pairs"):
        small.encode_batch(["a", "b"], ["c"])


@pytest.mark.parametrize("index", [-1, 15])
def test_an_id_outside_the_vocabulary_is_refused(small: WordPiece, index: int) -> None:
    with pytest.raises(UserError, match="outside the vocabulary of 15 pieces"):
        small.decode([index])


def test_an_unwritable_folder_is_one_line(small: WordPiece, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot write"):
        small.save_pretrained(tmp_path / "file")
