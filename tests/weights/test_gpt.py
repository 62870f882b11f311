"""GPT-2's tensors: transposed, three matrices in one, and back."""

from __future__ import annotations

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.config import GptConfig
from d2lbert.weights.gpt import PREFIX, check_gpt_header, from_hugging_face, to_hugging_face
from d2lbert.weights.header import TensorInfo

D, F, V, P = 2, 3, 5, 4
BLOCK = {
    **{f"{norm}.{kind}": (D,) for norm in ("attention_norm", "feed_forward_norm") for kind in ("weight", "bias")},
    **{f"attention.{part}.weight": (D, D) for part in ("query", "key", "value", "output")},
    **{f"attention.{part}.bias": (D,) for part in ("query", "key", "value", "output")},
    **{"feed_forward.expand.weight": (F, D), "feed_forward.expand.bias": (F,)},
    **{"feed_forward.project.weight": (D, F), "feed_forward.project.bias": (D,)},
}
SHAPES: dict[str, tuple[int, ...]] = {
    "embeddings.word.weight": (V, D),
    "embeddings.position.weight": (P, D),
    "encoder.norm.weight": (D,),
    "encoder.norm.bias": (D,),
    **{f"encoder.blocks.{block}.{name}": shape for block in range(2) for name, shape in BLOCK.items()},
}


@pytest.fixture
def parameters() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def test_the_layout_by_hand(parameters: dict[str, np.ndarray]) -> None:
    parameters["encoder.blocks.1.attention.query.weight"] = np.array([[1, 2], [3, 4]])
    parameters["encoder.blocks.1.attention.key.weight"] = np.array([[5, 6], [7, 8]])
    parameters["encoder.blocks.1.attention.value.weight"] = np.array([[9, 10], [11, 12]])
    tensors = to_hugging_face(parameters, 2)
    # (inputs, outputs), queries, keys and values side by side.
    qkv = [[1, 3, 5, 7, 9, 11], [2, 4, 6, 8, 10, 12]]
    assert tensors["transformer.h.1.attn.c_attn.weight"].tolist() == qkv
    assert tensors["transformer.h.0.mlp.c_fc.weight"].shape == (D, F)
    assert tensors["transformer.wte.weight"] is parameters["embeddings.word.weight"]
    assert len(tensors) == 4 + 2 * 12


@pytest.mark.parametrize("prefix", [PREFIX, ""])
def test_there_and_back(parameters: dict[str, np.ndarray], prefix: str) -> None:
    """A file of the first release has no prefix, a mask in every block, and the output layer once more."""
    tensors = {prefix + name.removeprefix(PREFIX): array for name, array in to_hugging_face(parameters, 2).items()}
    extra = {f"{prefix}h.0.attn.bias": np.ones((1, 1, P, P)), "lm_head.weight": np.zeros((V, D))}
    back = from_hugging_face(tensors | extra, SHAPES, 2, "here")
    assert back.keys() == parameters.keys()
    assert all(np.array_equal(back[name], parameters[name]) for name in parameters)


def test_what_does_not_fit_is_one_line(parameters: dict[str, np.ndarray]) -> None:
    tensors = to_hugging_face(parameters, 2)
    missing = {name: array for name, array in tensors.items() if "h.1.ln_2.bias" not in name}
    with pytest.raises(UserError, match=r"^here lacks 1 of \d+ tensors, first 'h\.1\.ln_2\.bias'"):
        from_hugging_face(missing, SHAPES, 2, "here")
    with pytest.raises(UserError, match=r"the weights hold 'h\.2\.ln_1\.bias', which the configuration has no"):
        from_hugging_face({**tensors, "h.2.ln_1.bias": np.zeros(2)}, SHAPES, 2, "here")
    wide = {**tensors, "transformer.wpe.weight": np.zeros((P + 1, D))}
    with pytest.raises(UserError, match=r"wpe\.weight has shape \(5, 2\) but the configuration asks for \(4, 2\)"):
        from_hugging_face(wide, SHAPES, 2, "here")


@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_a_header_is_checked_as_the_tensors_are(parameters: dict[str, np.ndarray], prefix: str) -> None:
    sizes = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 1}
    vocabulary, width = parameters["embeddings.word.weight"].shape
    positions = len(parameters["embeddings.position.weight"])
    inner = len(parameters["encoder.blocks.0.feed_forward.expand.weight"])
    layers = 1 + max(int(name.split(".")[2]) for name in parameters if ".blocks." in name)
    config = GptConfig(vocabulary, positions, width, layers, 1, inner, **sizes)
    tensors = {prefix + name[len(PREFIX) :]: array for name, array in to_hugging_face(parameters, layers).items()}
    header = {name: TensorInfo(name, "F16", array.shape, 0) for name, array in tensors.items()}
    mask = {f"{prefix}h.0.attn.bias": TensorInfo("mask", "BOOL", (1, 1, 9, 9), 0)}
    check_gpt_header({**header, **mask}, config, "here")
    for change, message in (
        ({"n_layer": layers + 1}, "lacks 12 of"),
        ({"n_layer": layers - 1}, "has no place for"),
        ({"n_inner": inner + 1}, r"mlp\.c_fc\.weight has shape .* asks for"),
        ({"n_embd": 10**6}, "has shape"),
        ({"vocab_size": 10**7}, r"wte\.weight has shape"),
    ):
        with pytest.raises(UserError, match=message):
            check_gpt_header(header, config.replace(**change), "here")
    words = header[f"{prefix}wte.weight"]
    twice = {**header, "wte.weight": words, f"{PREFIX}wte.weight": words}
    with pytest.raises(UserError, match=r"holds 'wte\.weight' twice, with and without 'transformer\.'"):
        check_gpt_header(twice, config, "here")
