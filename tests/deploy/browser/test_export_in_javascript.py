"""A folder for browsers, run by ONNX Runtime Web and read by our JavaScript, answers as ``d2lbert predict`` does."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser_demo import exported
from node_support import run_in_node

from d2lbert import get_model
from d2lbert.deploy.browser import RUNTIME_BYTES
from d2lbert.deploy.browser.export import export_for_browser
from d2lbert.deploy.exported import load_trained
from d2lbert.tasks.table import named_task
from d2lbert.text import split_words
from d2lbert.torch.masked_words import fill_masks
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.training.evaluation import predict
from d2lbert.zoo.folders import locate

ROOT = Path(__file__).resolve().parents[3]
RUNTIME = ROOT / "site" / "extra" / "onnxruntime"
TEXTS = (
    "A warm and funny film.",
    "I was bored; 120 minutes, and no end!",
    "Jim bought 300 shares of Acme Corp. in 2006",
    "Crème brûlée im Café Müller, İstanbul 北京 한국어",
    "un-be-liev-able \U0001f600 x\u0301",
)
LONG = " ".join(f"The {number}th sentence of this text names St. {number}'s bridge in Łódź." for number in range(90))
QUESTIONS = ("Which bridge?", "Where does the 7th sentence lead?", "Wo?")
GAPS = ("The capital of France is [MASK].", "[MASK] was born in [MASK] and died in 1900.")


def in_javascript(folder: Path, calls: list[list[Any]], place: Path) -> list[dict[str, Any]]:
    given = {"folder": f"{folder.as_uri()}/", "runtime": f"{RUNTIME.as_uri()}/", "calls": calls}
    found: list[dict[str, Any]] = run_in_node("run_model.mjs", given, place)
    return found


def in_python(task_name: str, source: str, texts: list[str], pairs: list[str], length: int) -> list[dict[str, Any]]:
    model, tokenizer = load_trained(source)
    named = named_task(task_name)
    task = named.of_model(model.labels, getattr(model, "null_threshold", None))
    return predict(model, task, tokenizer, named.of_texts(texts, pairs, model.labels), length)


def close(value: Any) -> Any:
    """What JavaScript gives must equal this to three decimals: graph and adapters are stored as they are."""
    return pytest.approx(value, abs=1e-3)


@pytest.fixture(scope="module")
def shared(folders: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four sets of adapters of one encoder."""
    out = tmp_path_factory.mktemp("browser") / "shared"
    return export_for_browser({name: folders[name] for name in ("mood", "likeness", "names", "answers")}, out).parent


def test_texts_and_pairs_are_classified_as_in_python(shared: Path, folders: dict[str, str], tmp_path: Path) -> None:
    calls = [["classify", "mood", text] for text in (*TEXTS, LONG)]
    calls += [["classify", "likeness", text, TEXTS[0]] for text in (*TEXTS, LONG)]
    opened, *found = in_javascript(shared, calls, tmp_path)
    assert opened["files"] == ["ort-wasm-simd-threaded.wasm.gz", "browser.json", "vocab.txt", "model.onnx"]
    texts = [*TEXTS, LONG]
    for ours, theirs in zip(in_python("classification", folders["mood"], texts, [], 128), found, strict=False):
        assert theirs["answer"]["label"] == ours["label"]
        assert theirs["answer"]["probabilities"] == close(ours["probabilities"])
    pairs = in_python("pair", folders["likeness"], texts, [TEXTS[0]] * 6, 128)
    for ours, theirs in zip(pairs, found[6:], strict=True):
        assert theirs["answer"] == close(ours)
    # An adapter is downloaded once, when it is first used.
    assert [one["files"] for one in found] == [["mood.safetensors"], *[[]] * 5, ["likeness.safetensors"], *[[]] * 5]


def test_words_are_tagged_as_in_python(shared: Path, folders: dict[str, str], tmp_path: Path) -> None:
    texts = [*TEXTS, LONG, "\u200b\ufeffa \ufffd b"]
    _, *found = in_javascript(shared, [["tag", "names", text] for text in texts], tmp_path)
    for text, ours, theirs in zip(texts, in_python("tagging", folders["names"], texts, [], 128), found, strict=True):
        assert theirs["answer"]["words"] == split_words(text, lowercase=False)
        assert theirs["answer"]["tags"] == ours["tags"]
        entities = theirs["answer"]["entities"]
        assert [(one["text"], one["type"]) for one in entities] == [(o["text"], o["type"]) for o in ours["entities"]]
        assert [one["probability"] for one in entities] == close([one["probability"] for one in ours["entities"]])
    assert any(one["answer"]["entities"] for one in found)


def test_questions_are_answered_as_in_python(shared: Path, folders: dict[str, str], tmp_path: Path) -> None:
    pairs = [(question, text) for question in QUESTIONS for text in (TEXTS[2], TEXTS[4], LONG)]
    _, *found = in_javascript(shared, [["answer", "answers", *pair] for pair in pairs], tmp_path)
    questions, texts = [question for question, _ in pairs], [text for _, text in pairs]
    for ours, theirs in zip(
        in_python("question_answering", folders["answers"], texts, questions, 384), found, strict=True
    ):
        assert [one["answer"] for one in theirs["answer"]["nBest"]] == [one["answer"] for one in ours["n_best"]]
        assert (theirs["answer"]["answer"], theirs["answer"]["start"]) == (ours["answer"], ours["start"])
        assert theirs["answer"]["probability"] == close(ours["probability"])


def test_gaps_are_filled_as_in_python(tmp_path: Path) -> None:
    export_for_browser({"tiny": "d2lbert-tiny"}, tmp_path / "tiny")
    _, *found = in_javascript(tmp_path / "tiny", [["fillMask", "tiny", text] for text in GAPS], tmp_path)
    model, tokenizer = BertForPretraining.from_pretrained(locate("d2lbert-tiny")).eval(), get_model("d2lbert-tiny")[1]
    for text, theirs in zip(GAPS, found, strict=True):
        for ours, gap in zip(fill_masks(model, tokenizer, text), theirs["answer"]["gaps"], strict=True):
            assert [one["piece"] for one in gap] == [piece for piece, _ in ours]
            assert [one["probability"] for one in gap] == close([probability for _, probability in ours])
        encoding = tokenizer.encode(text)
        ids, segments = torch.tensor([encoding.ids]), torch.tensor([encoding.segment_ids])
        weights = model.bert(ids, segments, output_attentions=True).attentions
        assert theirs["answer"]["tokens"] == encoding.tokens
        for layer, heads in enumerate(theirs["answer"]["attentions"]):
            for head, rows in enumerate(heads):
                np.testing.assert_allclose(rows, weights[layer][0, head].detach().numpy(), atol=1e-3)


@pytest.mark.slow
def test_eight_bits_give_the_labels_of_python(tmp_path: Path) -> None:
    minilm = exported(ROOT, "minilm", ROOT / "_build" / "models")  # as the site offers it
    calls = [["classify", "sentiment", text] for text in TEXTS[:2]] + [["tag", "entities", text] for text in TEXTS[:3]]
    _, *found = in_javascript(minilm, calls, tmp_path)
    labels = [one["label"] for one in in_python("classification", "minilm-sst2", [*TEXTS[:2]], [], 128)]
    assert [one["answer"]["label"] for one in found[:2]] == labels == ["positive", "negative"]
    tags = [one["tags"] for one in in_python("tagging", "minilm-wnut17", [*TEXTS[:3]], [], 128)]
    assert [one["answer"]["tags"] for one in found[2:]] == tags


def test_a_mistake_is_one_line(shared: Path, tmp_path: Path) -> None:
    calls = [
        ["classify", "mood", " \u200b "],
        ["classify", "names", "a"],
        ["tag", "names", ""],
        ["answer", "answers", "why", ""],
        ["fillMask", "mood", "a [MASK]"],
    ]
    _, *found = in_javascript(shared, calls, tmp_path)
    assert [one.get("error") for one in found] == [
        "the text holds nothing that the tokenizer keeps: give at least one word",
        "names is not for this: choose mood, likeness",
        "the text holds nothing that the tokenizer keeps: give at least one word",
        "the question or the text holds nothing that the tokenizer keeps: give at least one word",
        "mood is not for this: choose another model",
    ]


def test_a_damaged_file_is_refused(shared: Path, tmp_path: Path) -> None:
    shutil.copytree(shared, tmp_path / "damaged")
    with (tmp_path / "damaged" / "vocab.txt").open("r+b") as stream:
        stream.write(b"x")
    (found,) = in_javascript(tmp_path / "damaged", [], tmp_path)
    assert found["error"] == "vocab.txt is damaged or of another model: load the page anew"


def test_the_runtime_is_the_one_of_the_registry() -> None:
    """ONNX Runtime Web 1.30.0, its WebAssembly packed by gzip; nothing in it names a server that it would ask."""
    packed = (RUNTIME / "ort-wasm-simd-threaded.wasm.gz").read_bytes()
    unpacked = gzip.decompress(packed)
    assert len(unpacked) == 14_239_897
    assert hashlib.sha256(unpacked).hexdigest() == "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2"
    script = (RUNTIME / "ort.wasm.bundle.min.mjs").read_bytes()
    assert len(packed) + len(script) == RUNTIME_BYTES
    assert hashlib.sha256(script).hexdigest() == "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90"
    assert "MIT License" in (RUNTIME / "LICENSE").read_text()
