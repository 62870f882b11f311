"""Every field of every configuration and of all settings says its meaning once, and is held to its type and bounds."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import pydoc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import d2lbert.torch.training.finetuning
import d2lbert.torch.training.pretraining
from d2lbert import UserError
from d2lbert.config import AlbertConfig, BertConfig, ElmoConfig, GptConfig, Seq2SeqConfig, TransformerConfig, training
from d2lbert.config.settings import Settings, setting
from d2lbert.data.pretraining.batches import PretrainingSettings
from d2lbert.data.pretraining.masking import MaskingRates
from d2lbert.data.pretraining.shards import Preparation
from d2lbert.torch.generation import Sampling
from d2lbert.torch.training.elmo import LanguageModelTraining
from d2lbert.torch.translation import SequenceTraining


def _subclasses(parent: type[Settings]) -> Iterator[type[Settings]]:
    for child in parent.__subclasses__():
        if child.__module__.startswith("d2lbert."):
            yield child
            yield from _subclasses(child)


# All that the modules imported above define.
CLASSES = sorted(_subclasses(Settings), key=lambda one: one.__name__)
FIELDS = [(one, field) for one in CLASSES for field in dataclasses.fields(one)]
NUMBERS = [(one, field) for one, field in FIELDS if type(field.default) in (int, float)]

SEED = {"seed": (-1, 2**32)}
RATE, SHARE = (-0.1, 1.0), (-0.1, 1.1)
SIZES = {"vocab_size": (0,), "initializer_range": (0.0,)}
# Values that make no sense, for the fields where a bound is easily forgotten.
SENSELESS: dict[type[Settings], dict[str, tuple[float, ...]]] = {
    PretrainingSettings: {
        **SEED, "max_length": (4,), "batch_size": (0,), "window": (0,), "short_share": SHARE, "static_copies": (-1,),
    },
    MaskingRates: dict.fromkeys(("chosen", "masked", "replaced"), SHARE),
    Preparation: {"dev_share": RATE, "shard_characters": (0,)},
    Sampling: {"temperature": (-0.1,), "top_k": (-1,), "top_p": (0.0, 1.1)},
    SequenceTraining: {
        **dict.fromkeys(("steps", "tokens", "learning_rate", "warmup_steps", "clip", "evaluate_every"), (0,)),
        **SEED, "label_smoothing": RATE,
    },
    LanguageModelTraining: {
        **dict.fromkeys(("epochs", "learning_rate", "clip", "save_every"), (0,)), **SEED, "warmup": SHARE,
    },
    BertConfig: {
        **SIZES, "hidden_size": (0,), "num_attention_heads": (0,), "intermediate_size": (0,),
        "hidden_dropout_prob": RATE, "attention_probs_dropout_prob": RATE,
    },
    AlbertConfig: {"embedding_size": (0,), "num_hidden_groups": (0,)},
    GptConfig: {
        **SIZES, **dict.fromkeys(("n_positions", "n_embd", "n_layer", "n_head", "n_inner"), (0,)),
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), RATE),
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), (-1, 50257)),
    },
    TransformerConfig: {
        **dict.fromkeys(("source_vocab_size", "target_vocab_size", "hidden_size", "num_attention_heads"), (0,)),
        **dict.fromkeys(("intermediate_size", "max_position_embeddings", "num_encoder_layers"), (0,)),
        "num_decoder_layers": (0,), "hidden_dropout_prob": RATE, "attention_probs_dropout_prob": RATE,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), (-1, 37000)),
    },
    Seq2SeqConfig: {"embedding_size": (0,), "num_hidden_layers": (0,)},
    ElmoConfig: {
        **dict.fromkeys(("char_embedding_size", "projection_size", "hidden_size", "num_layers"), (0,)),
        "max_characters": (0,),
    },
}  # fmt: skip


@dataclass(frozen=True)
class Sample(Settings):
    """A class of settings for tests."""

    kind: ClassVar[str] = "sample"

    count: int = setting(3, "how many", at_least=1, at_most=5)
    rate: float = setting(0.5, "how often", above=0, below=1)
    free: float = setting(0.0, "any real number")
    name: str = setting("round", "round or square", one_of=("round", "square"))
    switch: bool = setting(False, "on or off")
    sizes: BertConfig = setting(BertConfig(), "how large")


def _id(value: object) -> str | None:
    return value.__name__ if isinstance(value, type) else getattr(value, "name", None)


def test_all_settings_are_here() -> None:
    names = {settings.__name__ for settings in CLASSES}
    configurations = {"AlbertConfig", "BertConfig", "DistilBertConfig", "ElmoConfig", "GptConfig", "Seq2SeqConfig"}
    assert names >= configurations | {"TransformerConfig", "Training", "Pretraining", "PretrainingSettings"}
    assert names >= {"Preparation", "MaskingRates", "Sampling", "SequenceTraining", "LanguageModelTraining"}


@pytest.mark.parametrize("settings", CLASSES, ids=_id)
def test_help_tells_every_field_with_default_and_meaning(settings: type[Settings]) -> None:
    text = pydoc.plain(pydoc.render_doc(settings))
    signature = inspect.signature(settings)
    for field in dataclasses.fields(settings):
        meaning = settings.meanings[field.name].meaning
        assert meaning
        assert "\n" not in meaning
        assert f"{field.name}: {meaning}" in text
        assert signature.parameters[field.name].default == field.default
    assert "\n\n" in inspect.getdoc(settings) or not dataclasses.fields(settings)  # its own words stay first


def test_a_meaning_is_written_once(root: Path) -> None:
    """No docstring of a class of settings lists its fields a second time."""
    for settings in CLASSES:
        tree = ast.parse(inspect.getsource(settings))
        assert isinstance(tree.body[0], ast.ClassDef)
        assert "Fields" not in (ast.get_docstring(tree.body[0]) or ""), settings


def test_the_settings_of_the_commands_are_the_ones_of_the_loops() -> None:
    assert d2lbert.torch.training.finetuning.Training is training.Training
    assert d2lbert.torch.training.pretraining.Pretraining is training.Pretraining


@pytest.mark.parametrize(("settings", "field"), FIELDS, ids=_id)
def test_values_of_another_type(settings: type[Settings], field: dataclasses.Field) -> None:
    type_ = type(field.default)
    for value in ("3", 2.5, 3, True, None, b"3", [1], 2j):
        if type(value) is type_ or (type_, type(value)) in ((float, int), (tuple, list)):  # JSON has no tuples
            continue
        with pytest.raises(UserError) as caught:
            settings(**{field.name: value})
        begin = f"{settings.kind}: {field.name} is {value!r}; it must be of type {type_.__name__} ("
        assert str(caught.value).startswith(begin)


@pytest.mark.parametrize(("settings", "field"), NUMBERS, ids=_id)
def test_numbers_out_of_bounds(settings: type[Settings], field: dataclasses.Field) -> None:
    type_, rule = type(field.default), settings.meanings[field.name]
    beyond = {"above": 0, "at least": -1, "below": 0, "at most": 1}
    wrong = [type_(bound + beyond[word]) for word, bound in rule.bounds]
    wrong += [math.nan, math.inf, -math.inf] if type_ is float else []
    assert wrong, "an integer without bounds"
    for value in wrong:
        with pytest.raises(UserError) as caught:
            settings(**{field.name: value})
        message = str(caught.value)
        assert message.startswith(f"{settings.kind}: {field.name} is {value!r}; it must be ")
        assert message.endswith(f" ({rule.meaning})")
        assert "\n" not in message


@pytest.mark.parametrize("settings", SENSELESS, ids=_id)
def test_what_makes_no_sense(settings: type[Settings]) -> None:
    for name, values in SENSELESS[settings].items():
        for value in values:
            with pytest.raises(UserError, match=f"^{settings.kind}: {name} is {value}[;,]"):
                settings(**{name: value})


def test_the_limits_themselves() -> None:
    for right in ({"count": 1}, {"count": 5}, {"rate": 1e-9}, {"rate": 0.999}, {"free": -1e300}, {"free": 7}):
        assert Sample(**right) == dataclasses.replace(Sample(), **right)
    wrong = {
        "count": {0: "at least 1 and at most 5", 6: "at least 1 and at most 5"},
        "rate": {0: "above 0 and below 1", 1.0: "above 0 and below 1", math.nan: "above 0 and below 1"},
        "free": {math.inf: "finite", 10**400: "finite"},
    }
    for name, values in wrong.items():
        for value, demand in values.items():
            with pytest.raises(UserError) as caught:
                Sample(**{name: value})  # type: ignore[arg-type]
            assert str(caught.value).endswith(f"; it must be {demand} ({Sample.meanings[name].meaning})")


def test_a_choice_and_a_part_of_another_kind() -> None:
    with pytest.raises(UserError, match=r"^sample: unknown name 'squared': did you mean square\?$"):
        Sample(name="squared")
    with pytest.raises(UserError, match=r"^sample: sizes is 3; it must be of type BertConfig \(how large\)$"):
        Sample(sizes=3)  # type: ignore[arg-type]


def test_another_default_keeps_meaning_and_bounds() -> None:
    assert AlbertConfig().vocab_size == 30000
    assert AlbertConfig.meanings["vocab_size"] == BertConfig.meanings["vocab_size"]
    with pytest.raises(UserError, match="vocab_size is 0; it must be at least 1"):
        AlbertConfig(vocab_size=0)


def test_relations_between_fields() -> None:
    with pytest.raises(UserError, match="pad_token_id is 7, outside the vocabulary of 7; give the id of one of its"):
        BertConfig(vocab_size=7, pad_token_id=7)
    with pytest.raises(UserError, match="num_highway_layers is -1; it must be at least 0"):
        ElmoConfig(num_highway_layers=-1)
