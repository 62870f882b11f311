"""The adapters that come with the book: small, described, and they answer without training or network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_support import complaint, run

from d2lbert import UserError, data, get_model
from d2lbert.data import Pair, TaggedSentence
from d2lbert.data.batching import pack
from d2lbert.data.facts import TALKS
from d2lbert.metrics import squad_f1
from d2lbert.tasks.table import named_task
from d2lbert.torch import heads
from d2lbert.torch.adapters import adapted_layers, load_adapters
from d2lbert.torch.runtime import to_tensors
from d2lbert.torch.training.evaluation import evaluate, predict
from d2lbert.weights.adapters import ADAPTER_WEIGHTS_FILE
from d2lbert.zoo import describe_models, locate
from d2lbert.zoo.table import ModelEntry, entries, find_entry

ADAPTERS = [entry for entry in entries() if entry.kind == "adapter"]
LABELS = [entry.label for entry in ADAPTERS]
# What the least of them must say: a text or a pair, and how its answer begins.
ANSWERS = {
    "minilm-sst2": [
        (["A joy from the first scene to the last."], "label", "positive"),
        (["I was bored."], "label", "negative"),
    ],
    "minilm-mrpc": [
        (["The company said profits rose.", "Profits went up, the company said."], "label", "paraphrase"),
        (["The company said profits rose.", "It rained in London on Sunday."], "label", "different"),
    ],
    "minilm-sick": [
        (["A dog is running in the park.", "An animal is running."], "label", "entailment"),
        (["A dog is running in the park.", "There is no dog running in the park."], "label", "contradiction"),
    ],
}

# Of minilm-squad, to the questions of the talks.
ANSWERS_TO_TALKS = [
    "Seattle",
    "National University of Singapore",
    "The National University of Singapore",
    "340M",
    "engineers, researchers, and students",
]


def _score(entry: ModelEntry, root: Path) -> dict[str, Any]:
    stored = json.loads((root / "results" / "finetuning" / "adapters.json").read_text())
    return stored["metrics"]["sets"][entry.dataset]


def test_together_they_are_small() -> None:
    assert len(ADAPTERS) >= 4
    folders = [locate(label) for label in LABELS]
    assert sum(path.stat().st_size for folder in folders for path in folder.iterdir()) < 5e6


@pytest.mark.parametrize("entry", ADAPTERS, ids=LABELS)
def test_its_card_says_what_was_measured_and_under_which_licence(entry: ModelEntry, root: Path) -> None:
    card = " ".join((locate(entry.label) / "README.md").read_text().split())
    found = _score(entry, root)
    name = found["score"]
    assert f"{name} {100 * found['scores'][name]:.1f}" in card
    assert f"full fine-tuning ({100 * found['full'][name]:.1f}" in card
    assert f"Measured** on {found['examples']['scored']:,} examples" in card
    for part in ("**Data**", "**Limits**", "**Licence**", "**Training**", f'get_model("minilm", "{entry.dataset}")'):
        assert part in card
    difference = 100 * (found["scores"][name] - found["full"][name])
    assert abs(difference) <= 1 or f"{-difference:.1f} points below" in card or "better than full" in card


@pytest.mark.parametrize("entry", ADAPTERS, ids=LABELS)
def test_the_file_is_the_measured_one(entry: ModelEntry, root: Path) -> None:
    """And the real examples, where they are, give the stored score: a part of them, within three standard errors."""
    assert (locate(entry.label) / ADAPTER_WEIGHTS_FILE).stat().st_size == _score(entry, root)["bytes"]


@pytest.mark.parametrize("entry", ADAPTERS, ids=LABELS)
def test_a_name_and_a_set_give_a_model_that_answers(entry: ModelEntry, no_data: None) -> None:
    model, tokenizer = get_model("minilm", entry.dataset)
    assert type(model).__name__ == named_task(entry.task).head
    assert not adapted_layers(model)
    same, _ = get_model(entry.label)
    assert torch.equal(same.classifier.weight, model.classifier.weight)
    open_model = load_adapters(getattr(heads, named_task(entry.task).head), locate(entry.label))
    assert len(adapted_layers(open_model)) in (36, 37)
    encoding = tokenizer.encode("A dog is running.", "An animal is running.")
    ids = torch.tensor([encoding.ids]), torch.tensor([encoding.segment_ids])
    torch.testing.assert_close(open_model(*ids), model(*ids), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("label", sorted(set(LABELS) & set(ANSWERS)))
def test_easy_examples_from_the_command_line(label: str, no_data: None) -> None:
    task = find_entry(label).task
    for texts, key, expected in ANSWERS[label]:
        options = [word for option, text in zip(("--text", "--pair"), texts, strict=False) for word in (option, text)]
        result = run("predict", task, "--model", label, *options)
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)[key] == expected, result.stdout


def test_similar_sentences_score_higher(no_data: None) -> None:
    command = ("predict", "pair", "--model", "minilm-stsb_en", "--text", "A man plays a guitar.", "--pair")
    near, far = (run(*command, text).stdout for text in ("Somebody is playing the guitar.", "The market fell."))
    assert json.loads(near)["score"] > json.loads(far)["score"] + 2


def _answers(dataset: str, questions: Sequence[Any], max_length: int = 128) -> list[dict[str, Any]]:
    """What the adapters of a data set answer."""
    entry = find_entry(f"minilm-{dataset}")
    model, tokenizer = get_model(entry.label)
    return predict(model, named_task(entry.task).of_model(model.labels, None), tokenizer, questions, max_length)


def test_two_reports_of_one_processor_are_paraphrases(no_data: None) -> None:
    """In both orders; a report and a text of something else are none."""
    announced = "The processor was announced in San Jose at the Forum."
    unveiled = "The processor was unveiled at the Forum in San Jose."
    questions = [Pair(announced, unveiled), Pair(unveiled, announced), Pair(announced, "A cat sleeps on the sofa .")]
    assert [answer["label"] for answer in _answers("mrpc", questions)] == ["paraphrase", "paraphrase", "different"]


def test_jim_is_a_person_and_amazon_a_corporation(no_data: None) -> None:
    jim = TaggedSentence(("Jim", "bought", "3000", "shares", "of", "Amazon", "in", "2006", "."))
    (answer,) = _answers("wnut17", [jim])
    entities = [(entity["text"], entity["type"]) for entity in answer["entities"]]
    assert entities == [("Jim", "person"), ("Amazon", "corporation")]


def test_four_of_the_talks_questions_are_answered(no_data: None, root: Path) -> None:
    """The second asks for a long list; the model names the university in its place. The pages of the decks say so."""
    answers = _answers("squad", TALKS)
    assert [answer["answer"] for answer in answers] == ANSWERS_TO_TALKS
    decks = "".join(page.read_text(encoding="utf-8") for page in (root / "chapters" / "decks").glob("*.toml"))
    wrong = []
    for question, answer in zip(TALKS, answers, strict=True):
        assert question.context[answer["start"] :].startswith(answer["answer"])
        right = squad_f1(answer["answer"], [one.text for one in question.answers or ()]) == 1
        wrong += [] if right else [question.question]
        assert f"`minilm-squad` answers *{answer['answer']}*: {'right' if right else 'wrong'}" in decks
    assert wrong == ["What can we learn in NUS?"]


def test_what_misleads_in_the_talks_texts(no_data: None) -> None:
    """The list is found for other question words, and where no name stands before it; other numbers in front mislead.

    Each text is whole in one window, as in the chapter.
    """
    nus, large = TALKS[1], TALKS[3]
    rest = nus.context[nus.context.index("Founded") :]
    changed = [
        replace(nus, question="Which subjects can we learn in NUS?", answers=None),
        replace(nus, context=rest, answers=None),
        replace(large, context=f"BERT-base has 12 layers and 110M parameters. {large.context}", answers=None),
    ]
    whole_list = (nus.answers or ())[0].text
    answers = [answer["answer"] for answer in _answers("squad", changed, 256)]
    assert answers == [whole_list, whole_list, "12 layers and 110M"]


def test_the_stored_score_again(real_data: Path, root: Path) -> None:
    """The sentiment of all 872 sentences; the device may turn a few of them."""
    entry = find_entry("minilm-sst2")
    model, tokenizer = get_model(entry.label)
    task = named_task(entry.task).of_model(model.labels, None)
    examples = data.load("sst2", "dev")[::4]
    scores, _ = evaluate(model, task, tokenizer, examples)
    stored = _score(entry, root)["scores"]["accuracy"]
    assert abs(scores["accuracy"] - stored) < 3 * np.sqrt(stored * (1 - stored) / len(examples))


def test_adapters_are_merged_in_mxnet(no_data: None) -> None:
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    from d2lbert.mxnet.runtime import to_tensors as to_arrays

    (one, tokenizer), (two, _) = get_model("minilm", "sst2"), get_model("minilm", "sst2", edition="mxnet")
    assert one.labels == two.labels
    batch = pack(tokenizer.encode_batch(["A film that nobody needs.", "Wonderful!"]))
    with torch.no_grad():
        expected = one(to_tensors(batch)).numpy()
    assert np.abs(expected - two(to_arrays(batch)).asnumpy()).max() < 1e-5


def test_what_adapters_are_not(no_data: None) -> None:
    with pytest.raises(UserError, match="nothing but weights: leave pretrained=False out"):
        get_model("minilm", "sst2", pretrained=False)
    assert "use the task that it was fine-tuned for" in complaint(
        "predict", "tagging", "--model", "minilm-sst2", "--text", "x"
    )
    assert "did you mean minilm-sst2" in complaint("predict", "classification", "--model", "minilm-sst", "--text", "x")


def test_evaluating_one_leaves_its_folder_alone(tmp_path: Path, no_data: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in locate("minilm-sst2").iterdir())
    result = run("evaluate", "classification", "--model", "minilm-sst2", "--data", "sst2")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "predictions-sst2-dev.jsonl").is_file()
    assert sorted(path.name for path in locate("minilm-sst2").iterdir()) == before


def test_finetuning_goes_on_from_one(tmp_path: Path, no_data: None) -> None:
    table = tmp_path / "train.csv"
    table.write_text("text,label\ngood,yes\nbad,no\nfine,yes\npoor,no\n")
    command = ("finetune", "classification", "--model", "minilm-sst2", "--train", table, "--dev", table)
    result = run(*command, "--epochs", "1", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    model = heads.BertForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.labels == ("no", "yes")


def test_the_list_names_them() -> None:
    rows = {row["label"]: row for row in describe_models()}
    for entry in ADAPTERS:
        assert rows[entry.label]["where"] == "book"
        assert entry.task in rows[entry.label]["note"]
