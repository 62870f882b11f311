"""Low-rank adapters, LoRA (Hu et al. 2022): the layer and what is done with it, and folders."""

from d2lbert.torch.adapters.folder import load_adapters, save_adapters
from d2lbert.torch.adapters.layer import LoraLinear, adapted_layers, add_adapters, merge_adapters

__all__ = ["LoraLinear", "adapted_layers", "add_adapters", "load_adapters", "merge_adapters", "save_adapters"]
