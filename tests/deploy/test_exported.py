"""An exported model takes the place of the head that it was made of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.data import Sentence
from d2lbert.deploy.export import export
from d2lbert.deploy.exported import ExportedModel, load_trained
from d2lbert.deploy.server.models import Models, predict
from d2lbert.tasks.table import named_task
from d2lbert.torch.heads import BertForTokenClassification
from d2lbert.torch.training.evaluation import compute_logits, evaluate

TEXTS = ["a warm and funny film", "no", "it was long , and I was never bored .", "what a strange afternoon this is"]


@pytest.fixture(scope="module", params=[False, True], ids=["padded", "packed"])
def exported(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "model"
    export(str(folder), out, packed=request.param)
    return out


def test_its_logits_and_scores_are_those_of_the_head(exported: Path, folder: Path) -> None:
    model, tokenizer = load_trained(str(folder))
    run = ExportedModel.from_folder(exported)
    assert run.labels == model.labels
    encodings = [tokenizer.encode(text) for text in TEXTS]
    right = compute_logits(model, encodings, tokenizer)
    np.testing.assert_allclose(compute_logits(run, encodings, tokenizer, batch_size=3), right, atol=1e-4)
    examples = [Sentence(text, label) for text, label in zip(TEXTS, "abca", strict=True)]
    task = named_task("classification").of_model(model.labels, None)
    assert evaluate(run, task, tokenizer, examples)[0] == evaluate(model, task, tokenizer, examples)[0]


def test_the_server_serves_it_beside_the_model_it_was_made_of(exported: Path, folder: Path) -> None:
    models = Models({"graph": str(exported), "torch": str(folder)})
    asked = [models.prepare({"text": text, "model": name}) for text in TEXTS for name in ("graph", "torch")]
    answers = predict(asked)
    for graph, torch in zip(answers[::2], answers[1::2], strict=True):
        assert graph["label"] == torch["label"]
        np.testing.assert_allclose(
            list(graph["probabilities"].values()), list(torch["probabilities"].values()), atol=1e-4
        )


def test_a_text_that_is_too_long_is_refused(exported: Path, folder: Path) -> None:
    _, tokenizer = load_trained(str(folder))
    with pytest.raises(UserError, match="a text of 102 tokens, but the model has 64 positions"):
        compute_logits(ExportedModel.from_folder(exported), [tokenizer.encode("film " * 100)], tokenizer)


def test_what_does_not_fit_is_one_line(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not of BertForTokenClassification"):
        ExportedModel.from_folder(exported, BertForTokenClassification)
    shutil.copytree(exported, tmp_path / "cut")
    (tmp_path / "cut" / "model.onnx").write_bytes((exported / "model.onnx").read_bytes()[:1000])
    with pytest.raises(UserError, match="is no graph that ONNX Runtime can run") as error:
        ExportedModel.from_folder(tmp_path / "cut")
    assert "\n" not in str(error.value)
    shutil.copytree(exported, tmp_path / "labels")
    config = json.loads((exported / "config.json").read_text())
    config["id2label"] = {"0": "a", "1": "b"}
    (tmp_path / "labels" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"has 3 outputs, but its config.json names 2: export it again"):
        ExportedModel.from_folder(tmp_path / "labels")


def test_the_threshold_for_no_answer_and_the_length_of_training_are_kept(folder: Path, tmp_path: Path) -> None:
    from d2lbert.torch.heads import BertForQuestionAnswering

    model, tokenizer = load_trained(str(folder))
    answers = BertForQuestionAnswering(model.bert)
    answers.null_threshold, answers.trained_length = 1.5, 40
    answers.save_pretrained(tmp_path / "answers")
    tokenizer.save_pretrained(tmp_path / "answers")
    export(str(tmp_path / "answers"), tmp_path / "out")
    exported = ExportedModel.from_folder(tmp_path / "out")
    assert (exported.null_threshold, exported.trained_length) == (1.5, 40)
    config = tmp_path / "out" / "config.json"
    config.write_text(config.read_text().replace('"null_threshold": 1.5', '"null_threshold": "low"'))
    with pytest.raises(UserError, match="null_threshold is 'low'; give a number"):
        ExportedModel.from_folder(tmp_path / "out")
