"""Gpt: folders, continuations, and mistakes that end in one line."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.numpy import load_file, save_file

from d2lbert import UserError
from d2lbert.config import GptConfig
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.torch.generation import Sampling, beam_search
from d2lbert.torch.gpt import Gpt, continue_texts

SMALL = GptConfig(
    vocab_size=31,
    n_positions=12,
    n_embd=8,
    n_layer=2,
    n_head=2,
    n_inner=12,
    bos_token_id=2,
    eos_token_id=3,
    pad_token_id=0,
)


def _model(seed: int = 0) -> Gpt:
    torch.manual_seed(seed)
    return Gpt(SMALL.replace(initializer_range=0.5)).eval()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _model().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def _edit_config(folder: Path, **changes: object) -> None:
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, **changes}))


def test_round_trip_is_exact_and_ready_to_write(folder: Path) -> None:
    model = Gpt.from_pretrained(folder)
    assert not model.training
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    for one, two in zip(_model().parameters(), model.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 32}, r"wte.weight has shape \(31, 8\) but the configuration asks for \(32, 8\)"),
        ({"n_layer": 3}, r"lacks 12 of \d+ tensors, first 'h.2.ln_1.weight'"),
        ({"n_layer": 1}, r"the weights hold 'h\.1\.\S+', which the configuration has no place for"),
        ({"n_inner": 13}, r"h.0.mlp.c_fc.weight has shape \(8, 12\) but the configuration asks for \(8, 13\)"),
    ],
)
def test_configuration_that_does_not_fit(folder: Path, change: dict[str, object], message: str) -> None:
    _edit_config(folder, **change)
    with pytest.raises(UserError, match=message) as caught:
        Gpt.from_pretrained(folder)
    assert "\n" not in str(caught.value)


def test_a_bert_is_no_gpt(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({f"roberta.{name}": array for name, array in tensors.items()}, folder / "model.safetensors")
    with pytest.raises(UserError, match="of another kind of model"):
        Gpt.from_pretrained(folder)
    with pytest.raises(UserError, match="not a model folder"):
        Gpt.from_pretrained(folder / "nowhere")


def test_projections_into_the_sum_start_smaller() -> None:
    torch.manual_seed(0)
    config = SMALL.replace(n_embd=256, n_inner=512, n_layer=8)
    block = Gpt(config).encoder.blocks[3]
    assert block.attention.query.weight.std().item() == pytest.approx(0.02, rel=0.05)
    for weight in (block.attention.output.weight, block.feed_forward.project.weight):
        assert weight.std().item() == pytest.approx(0.02 / math.sqrt(16), rel=0.05)


def test_a_prompt_gives_in_company_what_it_gives_alone() -> None:
    prompts = [[2, 5], [2, 7, 8, 9, 10], [11], [2, 4, 4]]
    for seed in range(3):
        model = _model(seed)
        together = model.generate(prompts, max_length=7)
        for prompt, hypothesis in zip(prompts, together, strict=True):
            alone = model.generate([prompt], max_length=7)[0]
            assert hypothesis.ids == alone.ids
            assert hypothesis.score == pytest.approx(alone.score, abs=1e-4)


def test_the_score_is_the_log_probability_of_the_continuation() -> None:
    model = _model()
    prompt = [2, 5, 6]
    found = model.generate([prompt], max_length=6, sampling=Sampling(seed=1))[0]
    written = found.ids + ([3] if found.ended else [])
    ids = torch.tensor([[*prompt, *written]])
    with torch.no_grad():
        steps = model(ids).logits.log_softmax(-1)[0, len(prompt) - 1 : -1]
    assert found.score == pytest.approx(float(steps[range(len(written)), written].sum()), abs=1e-4)


def test_beam_search_continues_prompts_too() -> None:
    """With a beam for every pair of tokens, it finds the best of all continuations that end within two tokens."""
    for seed in range(3):
        model = _model(seed)
        prompt = torch.tensor([[2, 5, 6]])
        found = beam_search(model, prompt, None, 31**2, 0.0, max_length=2)[0]
        longer = torch.cat([prompt.expand(31, -1), torch.arange(31).unsqueeze(1)], dim=1)  # one row for each token
        with torch.no_grad():
            steps = model(longer).logits.log_softmax(-1)
        scores = steps[0, 2] + steps[:, 3, 3]  # the token, then the end
        scores[3] = steps[0, 2, 3]  # the end at once
        assert found.score == pytest.approx(float(scores.max()), abs=1e-4)
        assert found.ids == ([] if int(scores.argmax()) == 3 else [int(scores.argmax())])


def test_continue_texts() -> None:
    tokenizer = WordPiece([*SPECIAL_TOKENS, *"abcdefghijklmnopqrstuvwxyz"])
    texts = ["a b", "", "a b c d"]
    found = continue_texts(_model(), tokenizer, texts, max_length=5, sampling=Sampling(seed=2))
    assert found == continue_texts(_model(), tokenizer, texts, max_length=5, sampling=Sampling(seed=2))
    assert all(set(text.split()) <= set("abcdefghijklmnopqrstuvwxyz") | {"[MASK]", "[UNK]"} for text in found)
    assert any(found)


def test_mistakes_are_one_line() -> None:
    model = _model()
    with pytest.raises(UserError, match="a text of 13 tokens, but the model has 12 positions: shorten the text"):
        model(torch.ones(1, 13, dtype=torch.long))
    with pytest.raises(UserError, match="a text of 13 tokens"):
        model.generate([[2] * 5], max_length=9)
    assert model.generate([[2] * 5], max_length=8)
    with pytest.raises(UserError, match="a prompt must end in a token"):
        model.generate([[2], []], max_length=3)
    with pytest.raises(UserError, match="put padding on the left"):
        model.start(torch.ones(1, 3, dtype=torch.long), torch.tensor([[1, 1, 0]]))
