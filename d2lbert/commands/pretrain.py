"""The command ``d2lbert pretrain``: from text files to a BERT or a GPT."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from d2lbert.commands.corpus import CorpusSource
from d2lbert.commands.editions import EditionName, named_edition
from d2lbert.commands.options import options_from_settings
from d2lbert.commands.stopping import stops_after_step
from d2lbert.config.bert import BertConfig, preset
from d2lbert.config.gpt import gpt_preset
from d2lbert.config.training import Pretraining
from d2lbert.data.pretraining.batches import PretrainingSettings
from d2lbert.data.pretraining.masking import MaskingRates
from d2lbert.data.pretraining.shards import Preparation, TokenShards, foreign_files, prepare
from d2lbert.errors import INTERRUPTED, UserError, unknown_name
from d2lbert.storage.claims import contents, held
from d2lbert.storage.files import remove_unfinished, writable_folder
from d2lbert.text import CLS, PAD, SEP

if TYPE_CHECKING:
    from d2lbert.mxnet.training.pretraining import Trainer as MxnetTrainer
    from d2lbert.torch.training.pretraining import Trainer


Corpus = Annotated[list[str], typer.Option("--corpus", help="text file, folder, pattern, or a prepared folder")]
More = Annotated[list[str] | None, typer.Argument(metavar="[PATH]...", help="more of the corpus")]
Out = Annotated[Path, typer.Option("--out", help="folder for the model, the log and the checkpoints; new or empty")]
Resume = Annotated[
    bool, typer.Option("--resume", help="go on with the run in --out, with the same corpus and settings")
]
Prepare = Annotated[bool, typer.Option("--prepare", help="only write the shards of tokens, into --out")]
Vocab = Annotated[Path | None, typer.Option("--vocab", help="a vocab.txt, instead of learning one")]
Cased = Annotated[bool, typer.Option("--cased", help="keep capital letters and accents")]

_SHARDS = "data"  # the folder in --out for the shards of tokens


@dataclass(frozen=True)
class _Kind:
    """What differs between the models that can be pretrained.

    Fields:
        preset: returns the configuration of a named size.
        dropout: the fields of the configuration that are dropout rates.
        positions: the field that is the longest input.
        special: field that is the id of a special token -> the token.
        pairs: whether the model can read pairs of texts.
        classes: imports and returns the classes of the model and of its data.
    """

    preset: Callable[[str], Any]
    dropout: tuple[str, ...]
    positions: str
    special: dict[str, str]
    pairs: bool
    classes: Callable[[], tuple[Any, Any]]


def _bert_classes() -> tuple[Any, Any]:
    from d2lbert.data.pretraining.batches import PretrainingData
    from d2lbert.torch.pretraining import BertForPretraining

    return BertForPretraining, PretrainingData


def _gpt_classes() -> tuple[Any, Any]:
    from d2lbert.data.pretraining.causal import CausalData
    from d2lbert.torch.gpt import Gpt

    return Gpt, CausalData


_KINDS = {
    "bert": _Kind(
        preset,
        ("hidden_dropout_prob", "attention_probs_dropout_prob"),
        "max_position_embeddings",
        {"pad_token_id": PAD},
        True,
        _bert_classes,
    ),
    "gpt": _Kind(
        gpt_preset,
        ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
        "n_positions",
        {"pad_token_id": PAD, "bos_token_id": CLS, "eos_token_id": SEP},
        False,
        _gpt_classes,
    ),
}


def _kind(model: str) -> _Kind:
    if model not in _KINDS:
        raise unknown_name("model", model, _KINDS)
    return _KINDS[model]


@options_from_settings(
    {
        "learning_rate": "--lr",
        "compiled": "--compile",
        "chosen": "--masking-share",
        "masked": "--mask-token-share",
        "replaced": "--random-token-share",
    }
)
def pretrain(
    corpus: Corpus,
    out: Out,
    settings: Pretraining,
    examples: PretrainingSettings,
    rates: MaskingRates,
    preparation: Preparation,
    config: Annotated[str, typer.Option("--config", help="tiny, mini, small, base or large")] = "tiny",
    model: Annotated[str, typer.Option("--model", help="bert, or gpt, which learns from single texts")] = "bert",
    more: More = None,
    resume: Resume = False,
    prepare_only: Prepare = False,
    vocab: Vocab = None,
    vocab_size: Annotated[int, typer.Option("--vocab-size", help="pieces to learn")] = BertConfig.vocab_size,
    cased: Cased = False,
    workers: Annotated[int, typer.Option("--workers", min=1, help="processes that tokenise")] = 1,
    engine: Annotated[
        str, typer.Option("--engine", help="of --workers: processes, or ray for a cluster")
    ] = "processes",
    dropout: Annotated[
        float, typer.Option("--dropout", help="0 for a small model and much text")
    ] = BertConfig.hidden_dropout_prob,
    initializer_range: Annotated[
        float, typer.Option("--initializer-range", help="deviation of the first weights; 0.08 suits tiny")
    ] = BertConfig.initializer_range,
    sharded: Annotated[bool, typer.Option("--sharded", help="under torchrun: a part of the model a process")] = False,
    edition: EditionName = "torch",
) -> None:
    """Pretrain a BERT or a GPT on plain text: one paragraph a line, a blank line between documents."""
    kind = _kind(model)
    if named_edition(edition).name == "mxnet":
        _check_for_mxnet(model, settings, sharded)
    sizes = kind.preset(config).replace(**dict.fromkeys(kind.dropout, dropout), initializer_range=initializer_range)
    source = CorpusSource([*corpus, *(more or [])], vocab, vocab_size, cased, preparation, workers, _engine(engine))
    source.check_vocabulary()
    first = os.environ.get("RANK", "0") == "0"  # of torchrun's processes; the others may already see its files in out
    with held(out) if first else contextlib.nullcontext():
        if first and not resume:
            _check_new(out, prepare_only)
        writable_folder(out)
        if prepare_only:
            print(_prepared(source, out).folder)
            return
        examples = dataclasses.replace(examples, rates=rates, next_sentence=examples.next_sentence and kind.pairs)
        longest = getattr(sizes, kind.positions)
        if examples.max_length > longest:
            raise UserError(f"--max-length is {examples.max_length}: this model takes up to {longest} tokens")
        world = _world(edition, sharded)
        if world.rank == 0:
            remove_unfinished(out)
            if not source.prepared:
                _prepared(source, out / _SHARDS)
        world.barrier()
        shards = TokenShards.open(source.paths[0] if source.prepared else out / _SHARDS)
        trainer = _mxnet_trainer if edition == "mxnet" else _trainer
        _train(trainer(shards, out, kind, sizes, examples, settings, world), resume, world.rank == 0)
        world.destroy()


def _check_new(out: Path, prepare_only: bool) -> None:
    """Refuse a folder with anything in it but shards of tokens: a run that was stopped before its first step may go on.

    Raises:
        UserError: it is not empty.
    """
    if prepare_only:
        found = foreign_files(out)
    else:
        found = [path for path in contents(out) if path.name != _SHARDS] + foreign_files(out / _SHARDS)
    if found:
        raise UserError(f"--out {out} is not empty: choose a new folder, or give --resume to go on with its run")


def _prepared(source: CorpusSource, folder: Path) -> TokenShards:
    """Return the shards of the corpus, prepared now or before."""
    try:
        return source.shards(folder)
    except KeyboardInterrupt:
        print(f"interrupted; the same command prepares the corpus from its beginning, in {folder}", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _engine(name: str) -> Callable[..., TokenShards]:
    """Return the function that prepares a corpus."""
    from d2lbert.data.pretraining.ray import prepare_on_ray

    engines = {"processes": prepare, "ray": prepare_on_ray}
    if name not in engines:
        raise unknown_name("engine", name, engines)
    return engines[name]


def _trainer(
    shards: TokenShards, out: Path, kind: _Kind, sizes: Any, examples: Any, settings: Any, world: Any
) -> Trainer:
    """Return a trainer with its model, data and settings."""
    from d2lbert.torch.runtime import seed_everything
    from d2lbert.torch.training.pretraining import Trainer

    seed_everything(settings.seed)
    model_class, data_class = kind.classes()
    model = model_class(_with_vocabulary(sizes, kind, shards)).to(world.device)
    data, dev = _batches(data_class, shards, examples, world)
    return Trainer(model, data, dev, settings, out, world)


def _mxnet_trainer(
    shards: TokenShards, out: Path, kind: _Kind, sizes: Any, examples: Any, settings: Any, world: _Alone
) -> MxnetTrainer:
    """Return the MXNet edition's trainer with its model, data and settings."""
    from d2lbert.data.pretraining.batches import PretrainingData
    from d2lbert.mxnet.pretraining import BertForPretraining
    from d2lbert.mxnet.runtime import seed_everything
    from d2lbert.mxnet.training.pretraining import Trainer as MxnetTrainer

    seed_everything(settings.seed)
    model = BertForPretraining(_with_vocabulary(sizes, kind, shards))
    data, dev = _batches(PretrainingData, shards, examples, world)
    return MxnetTrainer(model, data, dev, settings, out)


def _with_vocabulary(sizes: Any, kind: _Kind, shards: TokenShards) -> Any:
    """Return the sizes of a model with the number of pieces of the corpus, and the ids of its special tokens."""
    tokenizer = shards.tokenizer()
    special_ids = {field: tokenizer.token_to_id[token] for field, token in kind.special.items()}
    return sizes.replace(vocab_size=len(tokenizer.vocab), **special_ids)


def _batches(data_class: Any, shards: TokenShards, examples: Any, world: Any) -> tuple[Any, Any]:
    """Return the batches to train on, and the held-out ones, or None."""
    dev = data_class(shards, examples, "dev") if shards.names("dev") else None
    if dev is None and world.rank == 0:
        print("no held-out documents: the validation loss stays empty (see --dev-share)", file=sys.stderr)
    return data_class(shards, examples), dev


class _Alone:
    """One process, as the MXNet edition trains."""

    rank = 0

    def barrier(self) -> None:
        """Wait for nobody."""

    def destroy(self) -> None:
        """Leave nobody."""


def _world(edition: str, sharded: bool) -> Any:
    """Return this process among all that train together."""
    if edition == "mxnet":
        return _Alone()
    from d2lbert.torch.training.distributed import World

    return World.init(sharded)


def _check_for_mxnet(model: str, settings: Pretraining, sharded: bool) -> None:
    """Refuse what the MXNet edition does not have, before anything is read.

    Raises:
        UserError: a GPT, several processes, or a setting is asked for.
    """
    from d2lbert.mxnet.training.pretraining import refuse_settings

    if model != "bert":
        raise UserError(f"the mxnet edition pretrains a BERT alone, no {model}: use the torch edition")
    if sharded or os.environ.get("WORLD_SIZE", "1") != "1":
        raise UserError("the mxnet edition trains in one process: leave torchrun and --sharded out")
    refuse_settings(settings)


def _train(trainer: Trainer | MxnetTrainer, resume: bool, first: bool) -> None:
    if resume and trainer.resume() and first:
        print(f"going on after step {trainer.step}", file=sys.stderr)

    def stop() -> None:
        trainer.interrupted = True

    try:
        with stops_after_step(stop):
            metrics = trainer.run()
    except KeyboardInterrupt:
        goes_on = f"goes on after step {trainer.saved}" if trainer.saved else "begins with the first step"
        if first:
            print(f"interrupted after step {trainer.step}; --resume {goes_on}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    trainer.finish(trainer.data.shards.tokenizer())
    if first:
        print(json.dumps(metrics))
