"""Read and write a folder of low-rank adapters, in the layout of the package ``peft``.

``adapter_config.json`` holds rank, alpha and the encoder's name or folder; ``adapter_model.safetensors`` holds A and B
of every adapted layer, and the head. ``config.json`` beside them names the head and its labels, as in a model folder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from d2lbert.errors import UserError
from d2lbert.storage.files import read_json
from d2lbert.weights.folder import canonical_name, check_tensors, read_tensors, write_json, write_tensors

ADAPTER_CONFIG_FILE = "adapter_config.json"
ADAPTER_WEIGHTS_FILE = "adapter_model.safetensors"
_PREFIX = "base_model.model."  # of every tensor that peft saves
# Fields of peft's configuration that change what is computed, and the only values that we compute.
_REQUIRED: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "use_rslora": (False, None),
    "fan_in_fan_out": (False, None),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "layer_replication": (None,),
    "lora_bias": (False, None),
    "target_parameters": (None, []),
    # The other ways to begin take the first adapters out of the base weights: pissa, olora, corda, lora_ga, loftq.
    "init_lora_weights": (True, False, "gaussian", "eva", "orthogonal", "mica", None),
    "alora_invocation_tokens": (None,),
    "arrow_config": (None,),
    "kasa_config": (None,),
    "trainable_token_indices": (None,),
    "use_bdlora": (None,),
    "use_qalora": (False, None),
}


@dataclass(frozen=True)
class AdapterFolder:
    """What a folder of adapters holds.

    Fields:
        base: the name or the folder of the encoder.
        rank, alpha: of every adapter.
        tensors: under Hugging Face's names without the encoder's prefix: A as ``NAME.lora_A.weight`` (r, I), B as
            ``NAME.lora_B.weight`` (O, r), and the head's.
    """

    base: str
    rank: int
    alpha: float
    tensors: Mapping[str, np.ndarray]

    @property
    def layers(self) -> list[str]:
        """The adapted layers, by their names in Hugging Face's spelling."""
        ending = ".lora_A.weight"
        return [name.removesuffix(ending) for name in self.tensors if name.endswith(ending)]


def is_adapter_folder(folder: Path) -> bool:
    """Whether a folder holds adapters instead of a whole model."""
    return (folder / ADAPTER_CONFIG_FILE).is_file()


def base_of(folder: Path) -> str:
    """Return the name or the folder of the encoder that adapters belong to.

    Raises:
        UserError: the configuration is damaged or names no encoder.
    """
    base = read_json(folder / ADAPTER_CONFIG_FILE).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise UserError(
            f"{folder / ADAPTER_CONFIG_FILE} names no encoder: write its name or folder as base_model_name_or_path"
        )
    return base


def read_adapters(folder: Path) -> AdapterFolder:
    """Read a folder that :func:`write_adapters` or ``peft`` has written.

    Raises:
        UserError: a file is missing or damaged, names no encoder, or holds adapters of another kind than LoRA.
    """
    path, base = folder / ADAPTER_CONFIG_FILE, base_of(folder)
    config = read_json(path)
    for name, allowed in _REQUIRED.items():
        if config.get(name, allowed[-1]) not in allowed:
            raise UserError(
                f"{path}: {name} is {config[name]!r}, which d2lbert does not compute; use adapters where it is "
                f"{allowed[0]!r}"
            )
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if not isinstance(rank, int) or rank < 1 or not isinstance(alpha, int | float):
        raise UserError(f"{path}: r is {rank!r} and lora_alpha {alpha!r}; give a rank of 1 or more and a number")
    tensors = read_tensors(folder, ADAPTER_WEIGHTS_FILE)
    found = {canonical_name(name.removeprefix(_PREFIX)): array for name, array in tensors.items()}
    return AdapterFolder(base, rank, float(alpha), found)


def merge_into(tensors: Mapping[str, np.ndarray], content: AdapterFolder, origin: Path) -> dict[str, np.ndarray]:
    """Return the tensors of an encoder with W + (alpha / r) B A in place of W wherever there is an adapter.

    Args:
        tensors: of the encoder, under Hugging Face's names.
        content: the adapters; the head's tensors are left aside.
        origin: their folder, for messages.

    Raises:
        UserError: there are no adapters, one is of another encoder, or a part of the encoder was trained whole.

    Source: Hu et al. 2022, section 4.1.
    """
    unknown = [name for name in content.layers if f"{name}.weight" not in tensors]
    if unknown or not content.layers:
        what = f"adapts {unknown[0]}, which {content.base} does not have" if unknown else "holds no adapters"
        raise UserError(f"{origin} {what}: give the encoder that they were trained with as base_model_name_or_path")
    rows_and_columns = {name: tensors[f"{name}.weight"].shape for name in content.layers}
    shapes = {f"{name}.lora_A.weight": (content.rank, inputs) for name, (_, inputs) in rows_and_columns.items()}
    shapes |= {f"{name}.lora_B.weight": (outputs, content.rank) for name, (outputs, _) in rows_and_columns.items()}
    check_tensors(content.tensors, shapes, origin, lambda name: ".lora_" not in name and name not in tensors)
    merged = dict(tensors)
    for name in content.layers:
        down, up = content.tensors[f"{name}.lora_A.weight"], content.tensors[f"{name}.lora_B.weight"]
        merged[f"{name}.weight"] = tensors[f"{name}.weight"] + np.float32(content.alpha / content.rank) * (up @ down)
    return merged


def write_adapters(
    folder: Path,
    content: AdapterFolder,
    encoder_prefix: str,
    head: Collection[str],
    task_type: str | None,
    half: bool = False,
) -> None:
    """Write ``adapter_config.json`` and ``adapter_model.safetensors``, each atomically.

    Args:
        folder: created if it does not exist.
        content: what it will hold.
        encoder_prefix: of the encoder's layers in a whole model, such as ``"bert"``.
        head: the names of the head's tensors; they are kept whole, not as adapters.
        task_type: what ``peft`` calls the task, such as ``"SEQ_CLS"``.
        half: write float16 instead of float32.

    Raises:
        UserError: a number is NaN or infinite (for float16, larger than 65,504), or the folder cannot be written.
    """
    kind = np.float16 if half else np.float32
    tensors = {}
    for name, array in content.tensors.items():
        whole = name if name in head else f"{encoder_prefix}.{name}"
        tensors[_PREFIX + whole] = array.astype(kind)
    write_tensors(folder, tensors, ADAPTER_WEIGHTS_FILE)
    values = {
        "peft_type": "LORA",
        "task_type": task_type,
        "base_model_name_or_path": content.base,
        "r": content.rank,
        "lora_alpha": content.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
        "target_modules": [f"{encoder_prefix}.{name}" for name in content.layers],
        "modules_to_save": sorted({name.rpartition(".")[0] for name in head}),
    }
    write_json(folder / ADAPTER_CONFIG_FILE, values)
