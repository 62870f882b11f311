"""Settings of the training loops: every number is held to its bounds, up to the last value that makes sense."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import fields

import pytest

from d2lbert import UserError
from d2lbert.config.settings import Settings
from d2lbert.config.training import PRECISIONS, Pretraining, Training, suited_settings

TINY = 1e-300
JUST_OVER, JUST_UNDER = math.nextafter(1, 2), math.nextafter(0, -1)
# What every number may be at the least and at the most (None: no end), and the values next to them.
AT_LEAST_ONE = (1, 0, None, None)
POSITIVE = (TINY, 0.0, None, None)
NOT_NEGATIVE = (0.0, JUST_UNDER, None, None)
SHARE = (0.0, JUST_UNDER, 1.0, JUST_OVER)
SEED = (0, -1, 2**32 - 1, 2**32)
COMMON = {"learning_rate": POSITIVE, "clip": POSITIVE, "weight_decay": NOT_NEGATIVE, "warmup": SHARE, "seed": SEED}
LIMITS: dict[type[Settings], dict[str, tuple]] = {
    Training: {
        **COMMON,
        **dict.fromkeys(("epochs", "batch_size"), AT_LEAST_ONE),
        "max_length": (3, 2, None, None),  # [CLS], one piece, [SEP]
        "layer_decay": (TINY, 0.0, 1.0, JUST_OVER),
        "patience": (0, -1, None, None),
    },
    Pretraining: {
        **COMMON,
        **dict.fromkeys(("steps", "accumulation", "log_every", "validate_every", "save_every", "keep"), AT_LEAST_ONE),
        "validation_batches": AT_LEAST_ONE,
    },
}
CASES = [(settings, name, *limits) for settings, numbers in LIMITS.items() for name, limits in numbers.items()]


@pytest.mark.parametrize("settings", LIMITS)
def test_every_number_has_limits(settings: type[Settings]) -> None:
    numbers = {field.name for field in fields(settings) if type(field.default) in (int, float)}
    assert numbers == set(LIMITS[settings])


@pytest.mark.parametrize(("settings", "name", "lowest", "too_low", "highest", "too_high"), CASES)
def test_numbers_up_to_their_limits_and_no_further(
    settings: type[Settings],
    name: str,
    lowest: float,
    too_low: float,
    highest: float | None,
    too_high: float | None,
) -> None:
    for fine in (lowest, highest, 10**6 if highest is None else None):
        if fine is not None:
            assert getattr(settings(**{name: fine}), name) == fine
    for wrong in (too_low, too_high):
        if wrong is not None:
            with pytest.raises(UserError, match=f"^{settings.kind}: {name} is {wrong}; it must be "):
                settings(**{name: wrong})


@pytest.mark.parametrize("settings", LIMITS)
def test_precisions(settings: type[Settings]) -> None:
    assert PRECISIONS == ("auto", "float32", "bfloat16")
    for precision in PRECISIONS:
        settings(precision=precision)
    message = f"^{settings.kind}: unknown precision 'float16': did you mean bfloat16 or float32"
    with pytest.raises(UserError, match=message):
        settings(precision="float16")


@pytest.mark.parametrize(
    ("examples", "epochs", "batch_size"),
    [(1, 20, 4), (60, 15, 4), (99, 9, 4), (100, 17, 8), (200, 9, 8), (600, 6, 16), (1000, 7, 32), (1999, 4, 32),
     (2000, 3, 32), (10**6, 3, 32)],
)  # fmt: skip
def test_few_examples_get_more_and_smaller_steps(examples: int, epochs: int, batch_size: int) -> None:
    suited = suited_settings(examples)
    assert (suited.epochs, suited.batch_size, suited.learning_rate) == (epochs, batch_size, 1e-4)


def test_a_narrow_encoder_gets_a_higher_rate_and_all_else_stays() -> None:
    assert [suited_settings(60, width).learning_rate for width in (128, 255, 256, 768)] == [5e-4, 5e-4, 1e-4, 1e-4]
    given = Training(seed=3, max_length=20, warmup=0.2, epochs=7)
    suited = suited_settings(10**4, 384, given)
    assert suited == dataclasses.replace(given, epochs=3)
    assert suited_settings(10**4) == Training()  # where there are many examples, the defaults of the book


def test_the_kind_of_settings_stands_in_front_of_a_complaint() -> None:
    assert (Training.kind, Pretraining.kind) == ("training", "pretraining")


def test_what_both_share_they_mean_alike() -> None:
    shared = set(Training.meanings) & set(Pretraining.meanings)
    assert shared >= {"learning_rate", "warmup", "weight_decay", "clip", "precision"}
    assert all(Training.meanings[name] == Pretraining.meanings[name] for name in shared - {"seed"})
    assert Training.meanings["seed"].bounds == Pretraining.meanings["seed"].bounds
