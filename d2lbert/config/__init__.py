"""The sizes of every model, each in a frozen dataclass, the named presets, and the settings of training."""

from d2lbert.config.bert import PRESETS, BertConfig, preset
from d2lbert.config.elmo import ElmoConfig
from d2lbert.config.gpt import GPT_PRESETS, GptConfig, Sampling, gpt_preset
from d2lbert.config.relatives import AlbertConfig, DistilBertConfig, PrunedBertConfig
from d2lbert.config.translation import Seq2SeqConfig, TransformerConfig, transformer_preset

__all__ = [
    "GPT_PRESETS",
    "PRESETS",
    "AlbertConfig",
    "BertConfig",
    "DistilBertConfig",
    "ElmoConfig",
    "GptConfig",
    "PrunedBertConfig",
    "Sampling",
    "Seq2SeqConfig",
    "TransformerConfig",
    "gpt_preset",
    "preset",
    "transformer_preset",
]
