"""Pretrained models by name: the only module that knows both the names and the classes, of either edition."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from d2lbert.config.bert import BertConfig
from d2lbert.config.elmo import ElmoConfig
from d2lbert.config.gpt import GptConfig
from d2lbert.config.translation import Seq2SeqConfig, TransformerConfig, TranslationConfig
from d2lbert.errors import UserError, unknown_name
from d2lbert.storage.files import read_json
from d2lbert.text import ByteLevel, BytePairEncoding, Tokenizer, Unigram, WordPiece
from d2lbert.text.bpe import VOCABULARY_FILE
from d2lbert.text.characters import WordCharacters
from d2lbert.text.tokenizer_json import TOKENIZER_FILE, has_word_pieces
from d2lbert.text.vocab import check_vocabulary
from d2lbert.weights.adapters import is_adapter_folder
from d2lbert.weights.folder import CONFIG_FILE, OPTIONS_FILE, WEIGHTS_FILE
from d2lbert.weights.heads import HEADS
from d2lbert.zoo.folders import encoder_folder, entry_folder, find_model, is_other_repository, local_folder, locate
from d2lbert.zoo.gluonnlp import is_params, params_folder
from d2lbert.zoo.table import CONFIGS, ModelEntry, find_entry

# Kinds of models that turn one language into another, as their config.json says -> the class of its configuration.
_TRANSLATORS: dict[str, type[TranslationConfig]] = {"transformer": TransformerConfig, "seq2seq": Seq2SeqConfig}


def get_model(
    name: str,
    dataset_name: str | None = None,
    *,
    edition: str = "torch",
    pretrained: bool = True,
    path: str | Path | None = None,
) -> tuple[Any, Any]:
    """Return a model and its tokenizer, like GluonNLP's ``get_model``.

    A model of the hub is downloaded when it is first used (see :mod:`d2lbert.zoo.files`); ``d2lbert models`` lists all.

    Args:
        name: a name of the zoo, such as ``"minilm"`` or ``"bert_12_768_12"``; the name of a public repository of the
            hub that holds a BERT or a relative, such as ``"bert-base-uncased"``; or a model folder, also as
            ``file://...``.
        dataset_name: what the weights were trained on, such as ``"wiki_cn_cased"``, where a name has several; or what
            the encoder was adapted to, as in ``get_model("minilm", "sst2")``.
        edition: ``"torch"`` or ``"mxnet"``.
        pretrained: False for random weights of the same sizes; only the vocabulary is downloaded then.
        path: a model folder to use instead of the named one; or GluonNLP's own file of the named BERT, ``.params``,
            with its ``.vocab`` beside it, or the folder that has both (see :mod:`d2lbert.zoo.gluonnlp`).

    Returns:
        a ``BertModel``, ``DistilBertModel`` or ``PrunedBertModel`` with a ``WordPiece``, an ``AlbertModel`` with a
        ``Unigram``, a ``Gpt`` with a ``ByteLevel``, an ``Elmo`` with a ``WordCharacters``, or a translator, a
        ``Transformer`` or ``Seq2Seq``, with a ``BytePairEncoding``. Of low-rank adapters, the whole model with its
        head, such as a ``BertForSequenceClassification``, the adapters merged into the encoder.

    Raises:
        UserError: unknown name, data set or edition; weights that are not public, not available, or not those of the
            table; a vocabulary that does not fit the weights; adapters without their weights.
    """
    if edition not in ("torch", "mxnet"):
        raise unknown_name("edition", edition, ("torch", "mxnet"))
    entry, folder = _entry_and_folder(name, dataset_name, pretrained, path)
    if entry is not None and entry.kind == "elmo":
        elmo = _elmo_class(edition)
        model = elmo.from_pretrained(folder) if pretrained else elmo(ElmoConfig.from_options(folder / OPTIONS_FILE))
        return model, WordCharacters(model.config.max_characters)
    if is_adapter_folder(folder):
        return _adapted(folder, edition, pretrained)
    kind = entry.kind if entry is not None else _kind_of(folder)
    if kind in _TRANSLATORS:
        return _translator(folder, kind, edition, pretrained)
    if entry is None:
        _check_files(folder, pretrained, ("vocab.txt", TOKENIZER_FILE), " (or tokenizer.json)")
    encoder = _encoder_class(kind, edition)
    config = CONFIGS.get(kind, BertConfig)
    model = encoder.from_pretrained(folder) if pretrained else encoder(config.from_json(folder / CONFIG_FILE))
    if pretrained:
        _warn_of_head(folder)
    tokenizer = _gpt_tokenizer(folder, model.config) if kind == "gpt2" else tokenizer_of(folder, model.config)
    return model, tokenizer


def _entry_and_folder(
    name: str, dataset_name: str | None, pretrained: bool, path: str | Path | None
) -> tuple[ModelEntry | None, Path]:
    """Return the entry of the zoo, or None where a given folder tells what the model is, and the folder.

    The arguments are those of :func:`get_model`.
    """
    if path is not None and is_params(path):
        return None, params_folder(find_entry(name, dataset_name), Path(path))
    if path is None and (local_folder(name) or is_params(name) or is_other_repository(name)):
        path = name
    if path is not None:
        return None, locate(path, pretrained)
    entry = find_model(name, dataset_name)
    return entry, entry_folder(entry, pretrained)


def _adapted(folder: Path, edition: str, pretrained: bool) -> tuple[Any, Any]:
    """Return the whole model of a folder of adapters, and the tokenizer of its encoder.

    Raises:
        UserError: without weights; the folder is damaged, or its encoder is not available, or not in this edition.
    """
    if not pretrained:
        raise UserError(f"{folder.name} holds adapters, which are nothing but weights: leave pretrained=False out")
    refuse_relatives(_kind_of(encoder_folder(folder)), edition)
    model = _head_class(folder, edition).from_pretrained(folder)
    return model, tokenizer_of(folder, model.config)


def kind_of_name(name: str) -> str | None:
    """Return the kind of a model, given by its folder or its name, before anything is downloaded.

    Returns:
        a ``model_type`` of ``config.json``, such as ``"bert"`` or ``"gpt2"``; ``"elmo"`` or ``"adapter"``; None of a
        repository of the hub that is not in the table.

    Raises:
        UserError: there is no such folder and no such name.
    """
    folder = local_folder(name)
    if folder is not None:
        return "adapter" if is_adapter_folder(folder) else _kind_of(folder)
    return None if is_other_repository(name) else find_model(name).kind


def _check_encoder(name: str, kind: str | None) -> None:
    """Refuse a model that no text is encoded with.

    Raises:
        UserError: it is a GPT or a translator.
    """
    if kind == "gpt2" or kind in _TRANSLATORS:
        what = "a GPT" if kind == "gpt2" else "a translator"
        raise UserError(f"{name} is {what}, which is no encoder: choose a BERT, or one of its relatives")


def _kind_of(folder: Path) -> str:
    """Return the kind of the model in a folder, a BERT where its configuration is missing or does not say."""
    path = folder / CONFIG_FILE
    return str(read_json(path).get("model_type", "bert")) if path.is_file() else "bert"


def _translator(folder: Path, kind: str, edition: str, pretrained: bool) -> tuple[Any, BytePairEncoding]:
    """Return a Transformer or a Seq2Seq, and the encoding of both its languages.

    Raises:
        UserError: a file is missing or damaged, or they are not of one model.
    """
    _check_files(folder, pretrained, (VOCABULARY_FILE,))
    translator = _translator_class(kind, edition)
    if pretrained:
        model = translator.from_pretrained(folder)
    else:
        model = translator(_TRANSLATORS[kind].from_json(folder / CONFIG_FILE))
    tokenizer = BytePairEncoding.from_pretrained(folder)
    check_vocabulary(len(tokenizer), model.config.target_vocab_size, folder)
    return model, tokenizer


def _check_files(folder: Path, weights: bool, vocabularies: Sequence[str], besides: str = "") -> None:
    """Say which files a folder lacks, all at once.

    Args:
        weights: whether it must have them.
        vocabularies: names of files of which it must have one.
        besides: what the message says of the others.

    Raises:
        UserError: it lacks some.
    """
    lacks = [name for name in (CONFIG_FILE, *([WEIGHTS_FILE] if weights else [])) if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in vocabularies):
        lacks.append(f"{vocabularies[0]}{besides}")
    if lacks:
        raise UserError(f"{folder} lacks {' and '.join(lacks)}: give a whole model folder")


def _warn_of_head(folder: Path) -> None:
    """Say that a fine-tuned head is left behind, and what loads it."""
    architectures = read_json(folder / CONFIG_FILE).get("architectures")
    if not isinstance(architectures, list) or len(architectures) != 1:
        return
    head = str(architectures[0])[str(architectures[0]).find("For") :]
    if head in HEADS:
        warnings.warn(
            f"{folder} is a model of {architectures[0]}: here is its encoder alone; the whole model is "
            f"d2lbert.torch.heads.Bert{head}.from_pretrained({str(folder)!r})",
            stacklevel=3,
        )


def tokenizer_of(folder: Path, config: BertConfig) -> Tokenizer:
    """Return the tokenizer of the folder of an encoder; adapters have that of their encoder.

    Raises:
        UserError: the tokenizer is missing or damaged, or its vocabulary does not fit the model's embeddings.
    """
    folder, kind = encoder_folder(folder), Unigram if config.model_type == "albert" else WordPiece
    tokenizer = kind.from_pretrained(folder)
    check_vocabulary(len(tokenizer.vocab), config.vocab_size, folder)
    tokenizer.model_max_length = config.max_position_embeddings
    return tokenizer


def _gpt_tokenizer(folder: Path, config: GptConfig) -> WordPiece | ByteLevel:
    """Return the tokenizer of the folder of a GPT: one of BERT where it was trained here, else GPT-2's own."""
    kind = WordPiece if has_word_pieces(folder) else ByteLevel
    tokenizer = kind.from_pretrained(folder)
    check_vocabulary(len(tokenizer.vocab), config.vocab_size, folder)
    tokenizer.model_max_length = config.max_position_embeddings
    return tokenizer


def tokenizer_of_name(name: str) -> Tokenizer:
    """Return the tokenizer of an encoder, given by its folder or its name.

    Raises:
        UserError: as :func:`d2lbert.zoo.folders.locate`; the model has no tokenizer, as ELMo, or a damaged one, or is
            no encoder, as GPT.
    """
    _check_encoder(name, kind_of_name(name))  # before anything is downloaded
    folder = locate(name)
    if not (folder / CONFIG_FILE).is_file():
        raise UserError(f"{name} has no tokenizer of pieces: choose a BERT, or one of its relatives")
    kind = _kind_of(folder)
    _check_encoder(name, kind)
    config = CONFIGS.get(kind, BertConfig).from_json(folder / CONFIG_FILE)
    assert isinstance(config, BertConfig)
    return tokenizer_of(folder, config)


def _encoder_class(kind: str, edition: str) -> Any:
    """Return the class of BERT, of one of its relatives or of GPT."""
    if kind == "gpt2":
        return _gpt_class(edition)
    if edition == "torch":
        from d2lbert.torch.relatives import encoder_class

        return encoder_class(kind)
    refuse_relatives(kind, edition)
    from d2lbert.mxnet.bert import BertModel as MxnetBertModel

    return MxnetBertModel


def refuse_relatives(kind: str | None, edition: str) -> None:
    """Say which encoders the MXNet edition lacks.

    Raises:
        UserError: this is one.
    """
    if edition == "mxnet" and kind in ("albert", "distilbert", "pruned_bert"):
        raise UserError(f"the mxnet edition has no {kind}: use edition='torch'")


def _head_class(folder: Path, edition: str) -> Any:
    """Return the class of the head that the ``config.json`` of a folder names."""
    if edition == "torch":
        from d2lbert.torch.heads import head_class

        return head_class(folder / CONFIG_FILE)
    from d2lbert.mxnet.heads import head_class as mxnet_head_class

    return mxnet_head_class(folder / CONFIG_FILE)


def _gpt_class(edition: str) -> Any:
    if edition == "torch":
        from d2lbert.torch.gpt import Gpt

        return Gpt
    from d2lbert.mxnet.gpt import Gpt as MxnetGpt

    return MxnetGpt


def _translator_class(kind: str, edition: str) -> Any:
    """Return the class of a Transformer or of a Seq2Seq."""
    if edition == "torch":
        from d2lbert.torch.seq2seq import Seq2Seq
        from d2lbert.torch.transformer import Transformer

        return Transformer if kind == "transformer" else Seq2Seq
    from d2lbert.mxnet.seq2seq import Seq2Seq as MxnetSeq2Seq
    from d2lbert.mxnet.transformer import Transformer as MxnetTransformer

    return MxnetTransformer if kind == "transformer" else MxnetSeq2Seq


def _elmo_class(edition: str) -> Any:
    if edition == "torch":
        from d2lbert.torch.elmo import Elmo

        return Elmo
    from d2lbert.mxnet.elmo import Elmo as MxnetElmo

    return MxnetElmo
