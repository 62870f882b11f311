"""The models of a server: each text gets what the command would give it, whatever it shares a batch with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.commands.editions import named_edition
from d2lbert.deploy.server.models import Models, predict
from d2lbert.tasks.base import longest_input
from d2lbert.tasks.table import named_task
from d2lbert.torch.adapters.shared import SharedLinear
from d2lbert.torch.compression import prune_encoder
from d2lbert.torch.training.evaluation import predict as predict_offline

REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("mood", "classification", {"text": "a warm and funny film"}),
    ("mood", "pair", {"text": "a film", "pair": "a movie"}),
    ("likeness", "pair", {"text": "A man sleeps.", "pair": "A man is asleep."}),
    ("names", "tagging", {"text": "Jim bought shares of Amazon, in 2006."}),
    ("answers", "question_answering", {"context": "Jim sells eels. " * 200, "question": "Who sells eels?"}),
    ("choice", "multiple_choice", {"text": "It rained.", "choices": ["The road is wet.", "The road is dry.", "No."]}),
]


def offline(folders: dict[str, str], name: str, task: str, content: dict[str, Any]) -> dict[str, Any]:
    """What the same folder answers without a server."""
    model, tokenizer = named_edition("torch").load_trained(task, folders[name])
    named = named_task(task)
    seconds = content.get("choices", [content[key] for key in ("pair", "question") if key in content])
    examples = named.of_texts([content.get("text", content.get("context"))], seconds, model.labels)
    kind = named.of_model(model.labels, getattr(model, "null_threshold", None))
    return predict_offline(model, kind, tokenizer, examples, longest_input(model, named.max_length))[0]


def assert_close(found: Any, right: Any) -> None:
    """Equal but for the fifth decimal of numbers."""
    if isinstance(right, dict):
        assert set(right) <= set(found)
        for name in right:
            assert_close(found[name], right[name])
    elif isinstance(right, list | tuple):
        assert len(found) == len(right)
        for one, other in zip(found, right, strict=True):
            assert_close(one, other)
    elif isinstance(right, float):
        np.testing.assert_allclose(found, right, atol=1e-4)
    else:
        assert found == right


def test_a_mixed_batch_gives_what_each_model_gives_alone(models: Models, folders: dict[str, str]) -> None:
    prepared = [models.prepare({**content, "model": name}) for name, _, content in REQUESTS * 3]
    answers = predict(prepared)
    for (name, task, content), answer in zip(REQUESTS * 3, answers, strict=True):
        assert_close(answer, offline(folders, name, task, content))
    assert answers[3]["words"] == ("Jim", "bought", "shares", "of", "Amazon", ",", "in", "2006", ".")


@pytest.fixture(scope="session")
def shared_models(folders: dict[str, str]) -> Models:
    return Models(folders)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=6), st.integers(0, 3))
def test_company_does_not_matter(shared_models: Models, texts: list[str], which: int) -> None:
    name = ("mood", "names", "mood", "names")[which]
    try:
        own = shared_models.prepare({"text": texts[0], "model": name})
    except UserError:
        return
    others = []
    for text in texts[1:]:
        try:
            others.append(shared_models.prepare({"text": text, "model": "names"}))
        except UserError:
            continue
    assert_close(predict([*others, own])[-1], predict([own])[0])


def test_adapters_share_one_encoder(models: Models) -> None:
    encoders = {name: models.find(name).encoder for name in models.names}
    assert len({id(encoder) for encoder in encoders.values()}) == 2
    assert encoders["mood"] is encoders["answers"]
    weights = models.find("mood").encoder.bert.embeddings.word.weight
    assert models.find("names").head.bert.embeddings.word.weight is weights


def test_adapters_alone_with_their_encoder_are_merged(folders: dict[str, str]) -> None:
    alone = Models({"mood": folders["mood"], "choice": folders["choice"]})
    modules = alone.find("mood").encoder.bert.modules()
    assert not any(isinstance(module, SharedLinear) for module in modules)
    (answer,) = predict([alone.prepare({"text": "a warm and funny film", "model": "mood"})])
    assert_close(answer, offline(folders, "mood", "classification", {"text": "a warm and funny film"}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"text": "a"}, "several models are served: name one as model: mood, likeness"),
        ({"text": "a", "model": "mod"}, "unknown model 'mod'"),
        ({"model": "mood"}, "not nothing"),
        ({"text": " ", "model": "mood"}, "a text is empty"),
        ({"text": "a", "pair": "", "model": "mood"}, "a text is empty"),
        ({"text": 3, "model": "mood"}, "text must be a text"),
        ({"text": "a", "choices": "b", "model": "choice"}, "choices must be a list of texts"),
        ({"text": "a", "choices": ["b"], "model": "choice"}, "two or more choices"),
        ({"text": "a", "pair": "b", "choices": ["c", "d"], "model": "choice"}, "give one of"),
        ({"text": "a", "model": "answers"}, "question and context"),
        ({"text": "a", "model": "likeness"}, "the task pair, which reads text and pair"),
        ({"text": "a", "pair": "b", "model": "names"}, "the task tagging, which reads text alone"),
        ({"text": "a", "txt": "b"}, "unknown field 'txt'"),
        ({"text": "\u200b", "model": "mood"}, "holds nothing that the tokenizer keeps"),
    ],
)
def test_what_cannot_be_answered_is_refused(models: Models, content: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        models.prepare(content)
    assert "\n" not in str(refused.value)


def test_a_text_that_is_cut_is_answered_with_a_warning(models: Models) -> None:
    whole, cut = ({"text": "word " * count, "model": "mood"} for count in (126, 127))
    assert "warning" not in predict([models.prepare(whole)])[0]
    answer = predict([models.prepare(cut)])[0]
    assert answer["warning"] == "the text was cut after 128 tokens; what follows was not read"


def test_a_text_is_read_as_far_as_in_training(folders: dict[str, str], tmp_path: Path) -> None:
    for name in ("mood", "names"):  # adapters that share their encoder
        shutil.copytree(folders[name], tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text())
        (tmp_path / name / "config.json").write_text(json.dumps({**config, "trained_length": 200}))
    models = Models({name: str(tmp_path / name) for name in ("mood", "names")})
    whole, cut = ({"text": "word " * count, "model": "mood"} for count in (198, 199))
    assert "warning" not in predict([models.prepare(whole)])[0]
    assert "cut after 200 tokens" in predict([models.prepare(cut)])[0]["warning"]


def test_one_model_needs_no_name(folders: dict[str, str]) -> None:
    models = Models({"only": folders["mood"]})
    assert models.prepare({"text": "a"}).model.name == "only"
    assert models.example("only").tokens == 5


def test_a_pruned_model_is_served(folders: dict[str, str], tmp_path: Path) -> None:
    model, tokenizer = named_edition("torch").load_trained("multiple_choice", folders["choice"])
    model.bert = prune_encoder(model.bert, heads=[[1], [0, 1]], neurons=[range(9), [3]])
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    content = REQUESTS[-1][2]
    (answer,) = predict([Models({"small": str(tmp_path)}).prepare(content)])
    assert_close(answer, offline({"small": str(tmp_path)}, "small", "multiple_choice", content))


def test_a_model_of_the_zoo_knows_its_task() -> None:
    models = Models({"mrpc": "minilm-mrpc"})
    assert models.find("mrpc").tasks == ("pair",)
    with pytest.raises(UserError, match="which reads text and pair"):
        models.prepare({"text": "alone"})


def test_a_reload_takes_the_new_files_and_leaves_the_old_work(folders: dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(folders["mood"], tmp_path / "mood")
    models = Models({"mood": str(tmp_path / "mood"), "names": folders["names"]})
    old = models.prepare({"text": "a film", "model": "mood"})
    before = predict([old])[0]
    config = json.loads((tmp_path / "mood" / "config.json").read_text())
    config["id2label"] = {"0": "terrible", "1": "wonderful"}
    (tmp_path / "mood" / "config.json").write_text(json.dumps(config))
    models.reload("mood")
    new = predict([models.prepare({"text": "a film", "model": "mood"})])[0]
    assert set(new["probabilities"]) == {"terrible", "wonderful"}
    assert_close(list(new["probabilities"].values()), list(before["probabilities"].values()))
    assert_close(predict([old])[0], before)
    (tmp_path / "mood" / "adapter_model.safetensors").write_bytes(b"damaged")
    with pytest.raises(UserError):
        models.reload("mood")
    assert predict([models.prepare({"text": "a film", "model": "mood"})])[0]["label"] == new["label"]
