"""The readers of sentence pairs: each layout by hand, one fault each, the samples, and the real files."""

from __future__ import annotations

import gzip
import io
import lzma
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from d2lbert import UserError, data
from d2lbert.data import Pair, ScoredPair, Sentence, WordInContext, read_file
from d2lbert.data.readers import pairs
from d2lbert.data.readers.pairs import glue_pairs, rte, sense_pair
from d2lbert.storage.places import home

# Data set and split -> examples, as counted when the mirror was made. One file of 4,076, 9,815 or 5,282 pairs is cut.
COUNTS = {
    ("cola", "train"): 8551,
    ("cola", "dev"): 527,
    ("cola", "test"): 516,
    ("mrpc", "train"): 4076 - 407,
    ("mrpc", "dev"): 407,
    ("mnli_dev_matched", "train"): 9815 - 981,
    ("mnli_dev_matched", "dev"): 981,
    ("qnli_dev", "train"): 5282 - 528,
    ("qnli_dev", "dev"): 528,
    ("rte", "train"): 567 + 800 + 800,
    ("rte", "dev"): 400,
    ("rte", "test"): 800,
    ("sick", "train"): 4500,
    ("sick", "dev"): 500,
    ("sick", "test"): 4927,
    ("sick_relatedness", "dev"): 500,
    ("stsb_en", "train"): 5749,
    ("stsb_en", "dev"): 1500,
}
PAIR_SETS = ["mrpc", "mnli_dev_matched", "qnli_dev", "rte", "sick", "sick_relatedness", "stsb_en"]


def write(folder: Path, text: str, name: str = "file") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "split"), sorted(COUNTS))
def test_counts_of_the_real_files(real_data: Path, name: str, split: str) -> None:
    assert len(data.load(name, split)) == COUNTS[name, split]


def test_real_labels(real_data: Path) -> None:
    mrpc = [pair.label for split in ("train", "dev") for pair in data.load("mrpc", split)]
    assert Counter(mrpc) == {"paraphrase": 2753, "different": 1323}
    sick = Counter(pair.label for pair in data.load("sick", "test"))
    assert sick == {"neutral": 2793, "entailment": 1414, "contradiction": 720}
    assert all(0 <= pair.score <= 5 for pair in data.load("stsb_en", "train"))


LAYOUTS = [
    ("mrpc", '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe said "no\tNo, he said', "paraphrase"),
    ("mnli", 'index\tpremise\thypothesis\tgold_label\tx\n0\tHe said "no\tNo, he said\tneutral\t9\n', "neutral"),
    ("mnli", 'gold_label\tsentence1\tsentence2\nneutral\tHe said "no\tNo, he said\n', "neutral"),
    ("qnli", 'index\tquestion\tsentence\tlabel\n0\tHe said "no\tNo, he said\tnot_entailment\n', "not_entailment"),
    (
        "sick",
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
        '1\tHe said "no\tNo, he said\t4.5\tENTAILMENT\r\n',
        "entailment",
    ),
    ("glue-tsv", 'index\tsentence1\tsentence2\tlabel\n0\tHe said "no\tNo, he said\t1\n', "1"),
    ("glue-tsv", 'id\tquestion1\tquestion2\tis_duplicate\n0\tHe said "no\tNo, he said\t0\n', "0"),
    ("csv", 'first,second,label\n"He said ""no","No, he said",same\n', "same"),
    (
        "rte-xml",
        '<?xml version="1.0"?><c><pair id="1" value="TRUE"><t>He said\n&quot;no</t><h> No, he said</h></pair></c>',
        "entailment",
    ),
    ("rte-xml", '<c><pair id="1" entailment="NO"><t>He said "no</t><h>No, he said</h></pair></c>', "not_entailment"),
]


@pytest.mark.parametrize(("format", "content", "label"), LAYOUTS)
def test_each_layout(tmp_path: Path, format: str, content: str, label: str) -> None:
    examples = read_file(write(tmp_path, content), format, task="pair")
    assert examples == [Pair('He said "no', "No, he said", label)]


def test_scores(tmp_path: Path) -> None:
    path = write(tmp_path, 'A boat.,"A ship, far away.",3.25\n')
    assert read_file(path, "stsb", task="pair") == [ScoredPair("A boat.", "A ship, far away.", 3.25)]
    glue = write(tmp_path, "index\tgenre\tsentence1\tsentence2\tscore\n0\tx\ta\tb\t5.000\n")
    assert read_file(glue, "glue-tsv", task="pair") == [ScoredPair("a", "b", 5.0)]
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    sick = write(tmp_path, header + "1\ta\tb\t4.5\tNEUTRAL\n")
    assert read_file(sick, "sick-relatedness", task="pair") == [ScoredPair("a", "b", 4.5)]


def test_cola_is_known_by_its_four_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "gj04\t1\t\tThe bus stopped.\ngj04\t0\t*\tThe bus stop it.\n")
    expected = [Sentence("The bus stopped.", "acceptable"), Sentence("The bus stop it.", "unacceptable")]
    assert read_file(path, "cola") == read_file(path, "glue-tsv") == expected


def test_words_in_context_become_pairs(tmp_path: Path) -> None:
    path = write(tmp_path, "run\tV\t1-0\tHe ran .\tRun !\n", "dev.data.txt")
    write(tmp_path, "F\n", "dev.gold.txt")
    assert read_file(path, "wic", task="pair") == [Pair("run : He ran .", "Run !", "different")]
    assert sense_pair(WordInContext("a", "N", "b a", "a", 1, 0, True)) == Pair("a : b a", "a", "same")
    with pytest.raises(UserError, match=r"called NAME\.data\.txt"):
        read_file(write(tmp_path, "x", "texts.txt"), "wic", task="pair")


@pytest.mark.parametrize(
    ("format", "content", "message"),
    [
        ("mrpc", "Quality\tA\tB\n1\ta\tb\n", "line 1: no column '#1 String'"),
        ("mrpc", "Quality\t#1 String\t#2 String\n2\ta\tb\n", "line 2: the label '2' is not one of 0 = different"),
        ("mrpc", "Quality\t#1 String\t#2 String\n1\ta\n", "line 2: 2 columns where the header has 3"),
        ("qnli", "question\tsentence\tlabel\n \tb\tentailment\n", "line 2: the text is empty"),
        ("mnli", "premise\thypothesis\tgold_label\na\tb\t-\n", "line 2: the label '-' is not one of"),
        ("glue-tsv", "sentence\tlabel\na\t1\n", "line 1: no column 'sentence1'"),
        ("stsb", "a,b\n", "line 1: 2 columns where two texts and a score"),
        ("stsb", "a,b,high\n", "line 1: the score 'high' is not a number"),
        ("stsb", "a,b,nan\n", "line 1: the score 'nan' is not a number"),
        ("rte-xml", "<c><pair entailment='YES'>", "is not valid XML"),
        ("rte-xml", "<c><pair entailment='MAYBE'><t>a</t><h>b</h></pair></c>", "pair 1: the answer 'MAYBE'"),
        ("rte-xml", "<c><pair entailment='YES'><t>a</t></pair></c>", "pair 1: <t> or <h> is empty"),
        ("rte-xml", "<c></c>", "holds no examples"),
        ("conll", "", "unknown format 'conll'"),
    ],
)
def test_faults_are_one_line(tmp_path: Path, format: str, content: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_file(write(tmp_path, content), format, task="pair")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


RTE = "<c><pair entailment='YES'><t>a</t><h>b</h></pair></c>"


@pytest.mark.parametrize("ending", [".xz", ".gz"])
def test_packed_xml_that_is_damaged_is_one_line(tmp_path: Path, ending: str) -> None:
    packed = bytearray({".xz": lzma.compress, ".gz": gzip.compress}[ending](RTE.encode() * 50))
    path = tmp_path / f"rte.xml{ending}"
    for damaged in (packed[:20], packed[:10] + b"\xff" * 40, b"x" * 40):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"rte.xml... is damaged \(.*\); get the file again") as caught:
            read_file(path, "rte-xml", task="pair")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-88", "utf-7", "gb18030"])
def test_xml_in_an_encoding_that_cannot_be_read_is_one_line(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path, f"<?xml version='1.0' encoding='{encoding}'?>{RTE}")
    with pytest.raises(UserError, match=r"is not valid XML: .*; mend or get the file again") as caught:
        read_file(path, "rte-xml", task="pair")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("declared", ['a "many words"', '% a "many words"', 'a SYSTEM "/etc/passwd"'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_that_declares_an_entity_is_refused(tmp_path: Path, declared: str, encoding: str) -> None:
    path = tmp_path / "rte.xml"
    text = f"<!DOCTYPE c [<!ENTITY {declared}>]>{RTE.replace('>a<', '>one &a; two<')}"
    path.write_text(f"<?xml version='1.0' encoding='{encoding}'?>{text}", encoding=encoding)
    with pytest.raises(UserError) as caught:
        read_file(path, "rte-xml", task="pair")
    assert str(caught.value) == f"{path} declares the entity 'a'; write its text where it is used and remove it"


def test_entities_that_hold_one_another_are_not_unfolded(tmp_path: Path) -> None:
    laughs = "".join(f'<!ENTITY e{index} "{f"&e{index - 1};" * 10}">' for index in range(1, 30))
    bomb = f'<!DOCTYPE c [<!ENTITY e0 "laugh">{laughs}]>{RTE.replace(">a<", ">&e29;<")}'
    with pytest.raises(UserError, match="declares the entity 'e0'"):
        read_file(write(tmp_path, bomb), "rte-xml", task="pair")


def test_the_entities_of_xml_and_a_name_of_a_dtd_are_read(tmp_path: Path) -> None:
    named = f'<!DOCTYPE c SYSTEM "rte.dtd">{RTE.replace(">a<", ">a &amp; &#228;<")}'
    assert read_file(write(tmp_path, named), "rte-xml", task="pair") == [Pair("a & ä", "b", "entailment")]
    with pytest.raises(UserError, match="is not valid XML: undefined entity"):
        read_file(write(tmp_path, named.replace("&amp;", "&a;")), "rte-xml", task="pair")


def test_an_empty_text_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    path = write(tmp_path, "id\tquestion1\tquestion2\tis_duplicate\n1\tWhat?\t\t0\n")
    with pytest.raises(UserError, match="line 2: the text is empty"):
        list(glue_pairs(path))
    assert list(glue_pairs(path, allow_empty=True)) == [Pair("What?", "", "0")]


def test_labels_of_the_training_file_bind_the_others(tmp_path: Path) -> None:
    path = write(tmp_path, "first,second,label\na,b,other\n")
    with pytest.raises(UserError, match="the label 'other' is not one of no, yes"):
        read_file(path, "csv", ("no", "yes"), "pair")


def test_numbers_of_mrpc_have_names_where_the_model_has_these(tmp_path: Path) -> None:
    path = write(tmp_path, "Quality\t#1 String\t#2 String\n1\ta\tb\n0\tc\td\n")
    for format in ("mrpc", "glue-tsv"):
        found = read_file(path, format, ("paraphrase", "different"), "pair")
        assert [pair.label for pair in found] == ["paraphrase", "different"]
        with pytest.raises(UserError, match=r"the label '1' \(paraphrase\) is not one of no, yes; write these names"):
            read_file(path, format, ("no", "yes"), "pair")
    assert [pair.label for pair in read_file(path, "glue-tsv", task="pair")] == ["1", "0"]
    scored = write(tmp_path, "sentence1\tsentence2\tlabel\na\tb\t3.8\n", "scored")
    with pytest.raises(UserError, match=r"line 2: the label '3\.8' is a number with a fraction"):
        read_file(scored, "glue-tsv", task="pair")
    other = write(tmp_path, "sentence1\tsentence2\tlabel\na\tb\t1\n")  # of RTE or of another set: who knows
    with pytest.raises(
        UserError, match="the label '1' is not one of different, paraphrase; write these names: a number"
    ):
        read_file(other, "glue-tsv", ("different", "paraphrase"), "pair")


@pytest.mark.parametrize("name", [*PAIR_SETS, "cola"])
def test_samples_have_every_label_and_no_text_of_dev_in_train(name: str, no_data: None) -> None:
    splits = {}
    for split in data.info(name).splits:
        with pytest.warns(data.SampleDataWarning):
            splits[split] = data.load(name, split)
    assert len(splits["train"]) >= 16
    assert len(splits["dev"]) >= 6
    pairs = [example for examples in splits.values() for example in examples]
    texts = [(e.text,) if isinstance(e, Sentence) else (e.first, e.second) for e in pairs]
    assert len(set(texts)) == len(texts)
    if isinstance(pairs[0], ScoredPair):
        assert min(pair.score for pair in pairs) <= 1.4
        assert max(pair.score for pair in pairs) == 5.0
    else:
        labels = {example.label for example in splits["train"]}
        assert labels == {example.label for example in splits["dev"]}
        assert len(labels) == (3 if name in ("sick", "mnli_dev_matched") else 2)


def test_a_cut_file_gives_every_example_once(no_data: None) -> None:
    with pytest.warns(data.SampleDataWarning):
        train, dev = data.load("mrpc", "train"), data.load("mrpc", "dev")
    lines = (home() / "samples/mrpc/msr_paraphrase_train.txt").read_text("utf-8-sig").splitlines()
    assert len(lines) - 1 == len(train) + len(dev)
    assert dev[0].first == lines[10].split("\t")[3]
    assert train[9].first == lines[11].split("\t")[3]


@pytest.mark.parametrize("groups", [1, 1000])
def test_xml_is_read_pair_by_pair_in_the_memory_of_one(tmp_path: Path, groups: int) -> None:
    """All pairs in one element below the outermost, and each in one of its own, with other elements between."""
    path = tmp_path / "rte.xml"
    one = f"<note/><pair entailment='YES'><t>{'x' * 20_000}</t><h>b</h></pair>"
    path.write_text(f"<c>{f'<group>{one * (1000 // groups)}</group>' * groups}</c>")
    tracemalloc.start()
    assert sum(1 for _ in rte(path)) == 1000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 20e6
    assert peak < 2e6


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"<c>{'<d/>' * 2**17}</c>", "without a <pair>"),
        (f"<c><!--{'x' * 2**19}--></c>", "in one piece"),
        (f"<c><d a='{'x' * 2**19}'/></c>", "in one piece"),
    ],
)
def test_xml_may_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, message: str
) -> None:
    path = write(tmp_path, RTE.replace("<pair", f"<!--{'x' * 2**16}--><pair"))
    monkeypatch.setattr(pairs, "LONGEST_LINE", 2**17)
    assert len(list(rte(path))) == 1
    path.write_text(content)
    with pytest.raises(UserError, match=rf"has more than 0 MiB {message}; get the file again"):
        list(rte(path))


def test_a_long_piece_of_xml_is_not_begun_anew_for_each_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read at once grows with the piece, so that a piece of 4 MiB is begun some seven times, not sixty."""
    path = write(tmp_path, RTE.replace("<pair", f"<!--{'x' * 2**22}--><pair"))
    sizes: list[int] = []

    class Counting(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            sizes.append(size or 0)
            return super().read(size)

    monkeypatch.setattr(pairs, "open_binary", lambda path: Counting(Path(path).read_bytes()))
    assert len(list(rte(path))) == 1
    assert len(sizes) < 24  # both passes
