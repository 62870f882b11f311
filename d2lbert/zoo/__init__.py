"""Pretrained models by name: from a name to a folder of verified files. :mod:`d2lbert.models` builds the models."""

from d2lbert.zoo.folders import describe_models, locate

__all__ = ["describe_models", "locate"]
