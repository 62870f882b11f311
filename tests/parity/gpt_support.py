"""What the parity tests of GPT share: a small configuration of unequal sizes, both models, and the comparison."""

from __future__ import annotations

from typing import Any

import torch
from parity_support import BatchOfIds
from random_parameters import randomize
from torch import Tensor

from d2lbert.config import GptConfig
from d2lbert.torch.gpt import Gpt


def small_gpt_config(**changes: Any) -> GptConfig:
    """Every dimension has another size, so that a transposed axis cannot pass."""
    sizes = {
        "vocab_size": 101,
        "n_positions": 47,
        "n_embd": 24,
        "n_layer": 3,
        "n_head": 4,
        "n_inner": 56,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    return GptConfig(**{**sizes, **changes})


def reference_and_ours(
    config: GptConfig, implementation: str = "eager", random_parameters: bool = True
) -> tuple[Any, Gpt]:
    """A transformers.GPT2LMHeadModel and ours, with the same parameters: random ones, or those of a new model."""
    import transformers

    sizes = {name: value for name, value in config.to_dict().items() if name not in ("architectures", "model_type")}
    reference = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, attn_implementation=implementation))
    if random_parameters:
        randomize(reference, seed=11)
        with torch.no_grad():  # randomize knows LayerNorm by a name that GPT-2 does not use
            for name, parameter in reference.named_parameters():
                if ".ln_" in name and name.endswith("weight"):
                    parameter += 1
    ours = Gpt(config)
    ours.load_tensors({name: value.numpy() for name, value in reference.state_dict().items()}, "the reference")
    return reference.eval(), ours.eval()


def next_token_labels(batch: BatchOfIds) -> Tensor:
    """The labels that transformers shifts by itself: the ids, with -100 for padding."""
    return batch.token_ids.masked_fill(~batch.mask.bool(), -100)


def places_of(batch: BatchOfIds) -> tuple[Tensor, Tensor]:
    """Where a successor is asked for, and which it is: (P,), (P,)."""
    asked = torch.zeros_like(batch.mask, dtype=torch.bool)
    asked[:, :-1] = batch.mask[:, 1:].bool()
    return asked.flatten().nonzero().squeeze(1), batch.token_ids[:, 1:][batch.mask[:, 1:].bool()]


def compare_gpt(reference: Any, ours: Gpt, batch: BatchOfIds) -> dict[str, float]:
    """Return the largest absolute difference of each output, the loss and three gradients, over real tokens."""
    eager = reference.config._attn_implementation == "eager"
    theirs = reference(
        input_ids=batch.token_ids,
        attention_mask=batch.mask,
        labels=next_token_labels(batch),
        output_hidden_states=True,
        output_attentions=eager,
    )
    got = ours(batch.token_ids, batch.mask, output_hidden_states=True, output_attentions=eager)
    places, wanted = places_of(batch)
    at_places = ours(batch.token_ids, batch.mask, positions=places).logits
    loss = torch.nn.functional.cross_entropy(at_places, wanted)
    kept = batch.mask.bool()
    # Theirs gives the last state after the last LayerNorm, ours before it, and the normed one as the sequence.
    ours_states = (*got.hidden_states[:-1], got.sequence)
    pairs = list(zip(theirs.hidden_states, ours_states, strict=True))
    differences = {
        "hidden_states": max(_largest((one - two)[kept]) for one, two in pairs),
        "logits": _largest((theirs.logits - got.logits)[kept]),
        "loss": _largest(theirs.loss - loss),
    }
    if eager:
        both = zip(theirs.attentions, got.attentions, strict=True)
        differences["attentions"] = max(_largest((a - b).transpose(1, 2)[kept]) for a, b in both)
    for model, found in ((reference, theirs.loss), (ours, loss)):
        model.zero_grad()
        found.backward()
    block = ours.encoder.blocks[0]
    three = [getattr(block.attention, name).weight.grad.T for name in ("query", "key", "value")]
    transformer = reference.transformer
    gradients = {
        "word": (transformer.wte.weight.grad, ours.embeddings.word.weight.grad),
        "query, key, value": (transformer.h[0].attn.c_attn.weight.grad, torch.cat(three, dim=1)),
        "position": (transformer.wpe.weight.grad, ours.embeddings.position.weight.grad),
    }
    return differences | {f"{name} gradient": _largest(one - two) for name, (one, two) in gradients.items()}


def _largest(difference: Tensor) -> float:
    return float(difference.detach().abs().max())
