"""The shape of every parameter, from the sizes in a configuration alone: a file is checked before a model is built.

The names are ours. Nothing is allocated here, whatever sizes a configuration asks for.

Shape legend: D hidden size, F size inside the feed-forward network, V vocabulary, E embedding size, C size of a cell.
"""

from __future__ import annotations

from collections.abc import Sequence

from d2lbert.config.base import BlockSizes
from d2lbert.config.bert import BertConfig
from d2lbert.config.elmo import ElmoConfig
from d2lbert.config.gpt import GptConfig
from d2lbert.config.relatives import AlbertConfig, DistilBertConfig, PrunedBertConfig
from d2lbert.config.translation import Seq2SeqConfig, TransformerConfig

Shapes = dict[str, tuple[int, ...]]


def bert_shapes(config: BertConfig) -> Shapes:
    """Return the shapes of a BERT encoder, its pooler included."""
    width = config.hidden_size
    encoder = _stack("encoder", config.blocks)
    return _bert_embeddings(config, width) | encoder | _linear("pooler", width, width)


def albert_shapes(config: AlbertConfig) -> Shapes:
    """Return the shapes of an ALBERT: narrow embeddings, a matrix that widens them, and one block for each group."""
    narrow, width = config.embedding_size, config.hidden_size
    widening = _linear("embeddings.project", narrow, width)
    encoder = _stack("encoder", [config.block] * config.num_hidden_groups)
    return _bert_embeddings(config, narrow) | widening | encoder | _linear("pooler", width, width)


def distilbert_shapes(config: DistilBertConfig) -> Shapes:
    """Return the shapes of a DistilBERT, which has neither segments nor a pooler."""
    embeddings = _bert_embeddings(config, config.hidden_size)
    del embeddings["embeddings.segment.weight"]
    return embeddings | _stack("encoder", config.blocks)


def pruned_bert_shapes(config: PrunedBertConfig) -> Shapes:
    """Return the shapes of a pruned BERT, whose word embeddings may be two factors."""
    shapes, rank = bert_shapes(config), config.embedding_rank
    if rank:
        del shapes["embeddings.word.weight"]
        shapes["embeddings.word.narrow.weight"] = (config.vocab_size, rank)
        shapes["embeddings.word.widen.weight"] = (config.hidden_size, rank)
    return shapes


def gpt_shapes(config: GptConfig) -> Shapes:
    """Return the shapes of a GPT; its output layer is the table of word embeddings."""
    embeddings = {
        "embeddings.word.weight": (config.vocab_size, config.n_embd),
        "embeddings.position.weight": (config.n_positions, config.n_embd),
    }
    return embeddings | _stack("encoder", [config.block] * config.n_layer)


def transformer_shapes(config: TransformerConfig) -> Shapes:
    """Return the shapes of a Transformer; a table that two layers share counts once, as the target's embeddings."""
    target = (config.target_vocab_size, config.hidden_size)
    shapes: Shapes = {"target_embedding.weight": target}
    if not config.share_embeddings:
        shapes["source_embedding.weight"] = (config.source_vocab_size, config.hidden_size)
    if not config.tie_word_embeddings:
        shapes["output.weight"] = target
    shapes |= _stack("encoder", [config.block] * config.num_encoder_layers)
    return shapes | _stack("decoder", [config.block] * config.num_decoder_layers, memory=True)


def seq2seq_shapes(config: Seq2SeqConfig) -> Shapes:
    """Return the shapes of a recurrent encoder-decoder; a shared table counts once, as the target's embeddings."""
    narrow, width = config.embedding_size, config.hidden_size
    shapes: Shapes = {"target_embedding.weight": (config.target_vocab_size, narrow)}
    if not config.share_embeddings:
        shapes["source_embedding.weight"] = (config.source_vocab_size, narrow)
    directions = ("", "_reverse") if config.bidirectional else ("",)
    one_way = width // len(directions)
    for layer in range(config.num_hidden_layers):
        for direction in directions:
            entry = narrow if layer == 0 else width
            shapes |= _recurrent(f"encoder.{{}}_l{layer}{direction}", config.cell, entry, one_way)
        shapes |= _recurrent(f"decoder.{{}}_l{layer}", config.cell, narrow + width if layer == 0 else width, width)
    if config.attention == "additive":
        shapes |= {f"attention.{name}.weight": (width, width) for name in ("query", "key")}
        shapes["attention.score.weight"] = (1, width)
    shapes |= _linear("readout", 2 * width, narrow) | _linear("output", narrow, config.target_vocab_size)
    if config.tie_word_embeddings:
        del shapes["output.weight"]
    return shapes


def elmo_shapes(config: ElmoConfig) -> Shapes:
    """Return the shapes of an ELMo: the character network, then the LSTM layers of both directions."""
    words, size, cell = config.num_filters, config.projection_size, config.hidden_size
    shapes: Shapes = {"words.characters.weight": (config.num_characters, config.char_embedding_size)}
    for group, (width, number) in enumerate(config.filters):
        shapes[f"words.convolutions.{group}.weight"] = (number, config.char_embedding_size, width)
        shapes[f"words.convolutions.{group}.bias"] = (number,)
    for layer in range(config.num_highway_layers):
        shapes |= _linear(f"words.highways.{layer}.transform", words, words)
        shapes |= _linear(f"words.highways.{layer}.gate", words, words)
    shapes |= _linear("words.projection", words, size)
    for direction in ("forward", "backward"):
        for layer in range(config.num_layers):
            shapes |= _linear(f"{direction}_layers.{layer}.input", size, 4 * cell)
            shapes[f"{direction}_layers.{layer}.recurrent.weight"] = (4 * cell, size)
            shapes[f"{direction}_layers.{layer}.projection.weight"] = (size, cell)
    return shapes


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, size: int) -> Shapes:
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}


def _bert_embeddings(config: BertConfig, width: int) -> Shapes:
    rows = {
        "word": config.vocab_size,
        "position": config.max_position_embeddings,
        "segment": config.type_vocab_size,
    }
    tables: Shapes = {f"embeddings.{name}.weight": (count, width) for name, count in rows.items()}
    return tables | _norm("embeddings.norm", width)


def _stack(name: str, blocks: Sequence[BlockSizes], memory: bool = False) -> Shapes:
    """Return the shapes of a stack of blocks; ``memory``: each block also attends to an encoder's output."""
    shapes: Shapes = {}
    for layer, sizes in enumerate(blocks):
        block, width, heads = f"{name}.blocks.{layer}", sizes.hidden_size, sizes.attention_size
        for attention in ("attention", "cross_attention") if memory else ("attention",):
            for part in ("query", "key", "value"):
                shapes |= _linear(f"{block}.{attention}.{part}", width, heads)
            shapes |= _linear(f"{block}.{attention}.output", heads, width)
            shapes |= _norm(f"{block}.{attention}_norm", width)
        shapes |= _linear(f"{block}.feed_forward.expand", width, sizes.intermediate_size)
        shapes |= _linear(f"{block}.feed_forward.project", sizes.intermediate_size, width)
        shapes |= _norm(f"{block}.feed_forward_norm", width)
    return shapes | (_norm(f"{name}.norm", blocks[0].hidden_size) if blocks[0].norm_first else {})


def _recurrent(name: str, cell: str, inputs: int, outputs: int) -> Shapes:
    """Return the shapes of one recurrent layer; ``name`` has a place for the kind of parameter."""
    rows = {"gru": 3, "lstm": 4}[cell] * outputs
    kinds = {"weight_ih": (rows, inputs), "weight_hh": (rows, outputs), "bias_ih": (rows,), "bias_hh": (rows,)}
    return {name.format(kind): shape for kind, shape in kinds.items()}
