"""Gpt equals transformers.GPT2LMHeadModel: hidden states, attention, logits, loss, gradients, files, continuations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gpt_support import compare_gpt, reference_and_ours, small_gpt_config
from parity_support import BatchOfIds, random_batch

from d2lbert.config import GPT_PRESETS
from d2lbert.data.batching import Batch, pack, pad
from d2lbert.torch.encoder import count_parameters
from d2lbert.torch.gpt import Gpt
from d2lbert.torch.runtime import to_tensors

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("activation", ["gelu_new", "gelu", "relu"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_all_outputs_and_gradients_are_equal(activation: str, implementation: str) -> None:
    reference, ours = reference_and_ours(small_gpt_config(activation_function=activation), implementation)
    differences = compare_gpt(reference, ours, random_batch())
    assert set(differences) >= {"hidden_states", "logits", "loss", "word gradient", "position gradient"}
    assert max(differences.values()) < 1e-5, differences


def test_fused_and_explicit_attention_are_equal() -> None:
    _, ours = reference_and_ours(small_gpt_config())
    batch = random_batch()
    with torch.no_grad():
        fused, explicit = (ours(batch.token_ids, batch.mask, output_attentions=flag) for flag in (False, True))
    assert (fused.logits - explicit.logits)[batch.mask.bool()].abs().max() < 1e-5


def test_the_cache_gives_what_their_cache_gives() -> None:
    """A prompt first, then token after token; both against the run over all tokens at once."""
    reference, ours = reference_and_ours(small_gpt_config())
    ids = random_batch().token_ids.clamp(min=1)
    with torch.no_grad():
        whole = reference(ids).logits
        state = ours.start(ids[:, :4])
        theirs = reference(ids[:, :3], use_cache=True)
        for position in range(3, ids.shape[1]):
            theirs = reference(ids[:, position : position + 1], past_key_values=theirs.past_key_values, use_cache=True)
            step = ours.step(ids[:, position], state)
            assert (theirs.logits[:, 0] - step).abs().max() < 1e-5
            assert (whole[:, position] - step).abs().max() < 1e-5
    for (keys, values), cache in zip(_layers(theirs.past_key_values), state.caches, strict=True):
        assert (keys - cache.keys).abs().max() < 1e-5
        assert (values - cache.values).abs().max() < 1e-5


def _layers(cache: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of each layer; the lowest transformers that is promised gives them as they are."""
    return list(cache) if isinstance(cache, tuple) else [(layer.keys, layer.values) for layer in cache.layers]


def test_continuations_of_prompts_of_unequal_length_are_theirs() -> None:
    reference, ours = reference_and_ours(small_gpt_config(eos_token_id=3))
    generator = np.random.default_rng(2)
    prompts = [generator.integers(4, 101, length).tolist() for length in (7, 1, 4, 12)]
    found = ours.generate(prompts, max_length=20)
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    theirs = reference.generate(ids, attention_mask=mask, max_new_tokens=20, do_sample=False, pad_token_id=0)
    for hypothesis, row in zip(found, theirs[:, longest:].tolist(), strict=True):
        expected = row[: row.index(3)] if 3 in row else row
        assert hypothesis.ids == expected
    assert len({tuple(hypothesis.ids) for hypothesis in found}) == len(prompts)


def test_saved_folder_loads_in_transformers_and_back(tmp_path: Path) -> None:
    reference, ours = reference_and_ours(small_gpt_config())
    ours.save_pretrained(tmp_path / "ours")
    loaded = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "ours").eval()
    assert max(compare_gpt(loaded, ours, random_batch()).values()) < 1e-5
    reference.save_pretrained(tmp_path / "theirs")
    reference.transformer.save_pretrained(tmp_path / "headless")
    for folder in ("theirs", "headless"):
        back = Gpt.from_pretrained(tmp_path / folder)
        for name, value in ours.state_dict().items():
            assert torch.equal(value, back.state_dict()[name]), name
    assert Gpt.from_pretrained(tmp_path / "theirs").config == ours.config


def test_a_file_of_the_first_release_loads(tmp_path: Path) -> None:
    """No prefix, the mask in every block, an output layer, null for the inner width: as on the hub since 2019."""
    config = small_gpt_config(n_inner=96)
    _, ours = reference_and_ours(config)
    tensors = {name.removeprefix("transformer."): array for name, array in ours.tensors().items()}
    for block in range(3):
        tensors[f"h.{block}.attn.bias"] = np.tri(47, dtype=np.float32)[None, None]
        tensors[f"h.{block}.attn.masked_bias"] = np.float32([-1e4])
    from d2lbert.weights.folder import write_folder

    write_folder(tmp_path, config, tensors)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "n_inner": None, "pad_token_id": None}))
    loaded = Gpt.from_pretrained(tmp_path)
    assert loaded.config == config.replace(pad_token_id=config.eos_token_id)
    ids = random_batch().token_ids
    assert torch.equal(loaded(ids).logits, ours(ids).logits)


def _logits_by_text(ours: Gpt, batch: Batch) -> list[torch.Tensor]:
    logits = ours(to_tensors(batch)).logits
    spans = zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True)
    return [logits[row, column : column + length] for (row, column), length in spans]


def test_packed_rows_equal_padded_rows() -> None:
    _, ours = reference_and_ours(small_gpt_config())
    generator = np.random.default_rng(3)
    encodings = [BatchOfIds.encoding(generator, length) for length in (5, 17, 3, 30, 11, 2, 24, 8)]
    padded, packed = pad(encodings), pack(encodings, width=32)
    assert packed.token_ids.shape[0] < padded.token_ids.shape[0]
    with torch.no_grad():
        for one, two in zip(_logits_by_text(ours, padded), _logits_by_text(ours, packed), strict=True):
            assert (one - two).abs().max() < 1e-5


@pytest.mark.parametrize("arrange", [pad, pack])
def test_what_comes_later_changes_nothing(arrange: Callable[..., Batch]) -> None:
    """The property that makes writing possible: a token may change without a trace in what stands before it."""
    _, ours = reference_and_ours(small_gpt_config())
    generator = np.random.default_rng(4)
    encodings = [BatchOfIds.encoding(generator, length) for length in (9, 14, 12)]
    with torch.no_grad():
        before = _logits_by_text(ours, arrange(encodings))
        for encoding in encodings:
            encoding.ids[6] = (encoding.ids[6] + 1) % 101
        after = _logits_by_text(ours, arrange(encodings))
    for one, two in zip(before, after, strict=True):
        assert torch.equal(one[:6], two[:6])
        assert (one[6:] - two[6:]).abs().amax(dim=1).min() > 1e-3


@pytest.mark.parametrize("name", ["tiny", "base", "large"])
def test_parameter_counts_equal_the_reference(name: str) -> None:
    config = GPT_PRESETS[name]
    names = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner")
    with torch.device("meta"):
        theirs = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(**{field: getattr(config, field) for field in names})
        )
        assert count_parameters(Gpt(config)) == theirs.num_parameters()


def test_base_and_large_have_the_known_exact_counts() -> None:
    # The paper says 117 M and 345 M (table 2); the released models have these counts.
    with torch.device("meta"):
        counts = {name: count_parameters(Gpt(GPT_PRESETS[name])) for name in ("base", "large")}
    assert counts == {"base": 124_439_808, "large": 354_823_168}
