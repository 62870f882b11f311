"""The two editions have the same public names with the same methods and parameters, but for a table of exceptions.

Sources are read, not imported, so that neither framework is needed. What PyTorch alone has at the top of a file
(caches, training) needs no row; a method that only one edition of a class has does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

Definitions = dict[str, ast.ClassDef | ast.FunctionDef]

# Files of the MXNet edition that make up for what MXNet lacks, or does to others.
OWN = ("__init__.py", "blocks.py", "numpy_compat.py", "openmp.py")

_CACHE = "keeps keys and values between steps; what grows with every step has no place in MXNet's recorded graph"
_SEARCH = "takes one step of a search; this model of the MXNet edition scores known targets, and does not search"
_MEMORY = "the decoder's cache holds the memory; without a cache the memory itself comes in"
_RELATIVES = "ALBERT, DistilBERT and a pruned BERT have parts of their own; they are in PyTorch only"
_DEVICE = "no text names a device of MXNet; None is its default, the processor"

_DRAWN = "PyTorch alone spares the numbers that a file replaces; in MXNet they are drawn and replaced"

# Every difference, and why it is right.
EXCEPTIONS = {
    "attention.AdditiveAttention.attend: only in torch": _CACHE,
    "attention.MultiHeadAttention.__init__(head_size=None): only in torch": _RELATIVES,
    "attention.MultiHeadAttention.forward(cache=None): only in torch": _CACHE,
    "attention.MultiHeadAttention.empty_cache: only in torch": _CACHE,
    "attention.MultiHeadAttention.project: only in torch": _CACHE,
    "attention.MultiHeadAttention.attend: only in torch": _CACHE,
    "attention.always_a_mask: only in mxnet": "a recorded graph refuses a call with other arguments than its first had",
    "bert.BertModel.__init__(embeddings=None): only in torch": _RELATIVES,
    "bert.BertModel.__init__(encoder=None): only in torch": _RELATIVES,
    "bert.BertModel.is_complete: only in torch": _DRAWN,
    "decoder.TransformerDecoderBlock.start: only in torch": _CACHE,
    "decoder.TransformerDecoderBlock.forward(cache): only in torch": _MEMORY,
    "decoder.TransformerDecoderBlock.forward(memory): only in mxnet": _MEMORY,
    "decoder.PreNormDecoderBlock.forward(cache): only in torch": _MEMORY,
    "decoder.PreNormDecoderBlock.forward(memory): only in mxnet": _MEMORY,
    "decoder.TransformerDecoder.start: only in torch": _CACHE,
    "decoder.TransformerDecoder.forward(caches): only in torch": _MEMORY,
    "decoder.TransformerDecoder.forward(memory): only in mxnet": _MEMORY,
    "encoder.SinusoidalPositions.forward(first=0): only in torch": _CACHE,
    "encoder.TransformerEncoderBlock.forward(cache=None): only in torch": _CACHE,
    "encoder.PreNormEncoderBlock.forward(cache=None): only in torch": _CACHE,
    "encoder.TransformerEncoder.start: only in torch": _CACHE,
    "encoder.TransformerEncoder.extend: only in torch": _CACHE,
    "folder.HuggingFaceFolder.from_pretrained(initialize=True): only in torch": _DRAWN,
    "folder.HuggingFaceFolder.is_complete: only in torch": _DRAWN,
    "gpt.Gpt.objectives: only in torch": "names the losses of pretraining, which PyTorch alone does",
    "gpt.Gpt.start: only in torch": _CACHE,
    "gpt.Gpt.step: only in torch": _CACHE,
    "runtime.seed_step: only in mxnet": "MXNet does not give out the state of its generators, so a step is seeded",
    "runtime.to_tensors(device='cpu'): only in torch": _DEVICE,
    "runtime.to_tensors(device=None): only in mxnet": _DEVICE,
    "word_vectors.train(device=None): only in torch": "MXNet has no build for today's GPUs",
    "seq2seq.Seq2Seq.start: only in torch": _SEARCH,
    "seq2seq.Seq2Seq.step: only in torch": _SEARCH,
    "transformer.Transformer.start: only in torch": _SEARCH,
    "transformer.Transformer.step: only in torch": _SEARCH,
}


def parameters(function: ast.FunctionDef) -> list[str]:
    """The parameters in their order, such as ``mask=None``; after a ``*`` those that are given by keyword alone."""
    found = function.args
    by_place = [*found.posonlyargs, *found.args]
    defaults = [None] * (len(by_place) - len(found.defaults)) + found.defaults
    names = [_with_default(one, default) for one, default in zip(by_place, defaults, strict=True)]
    names += [f"*{found.vararg.arg}"] if found.vararg else []
    by_keyword = zip(found.kwonlyargs, found.kw_defaults, strict=True)
    names += [f"*, {_with_default(one, default)}" for one, default in by_keyword]
    return names + ([f"**{found.kwarg.arg}"] if found.kwarg else [])


def _with_default(parameter: ast.arg, default: ast.expr | None) -> str:
    return parameter.arg if default is None else f"{parameter.arg}={ast.unparse(default)}"


def definitions(source: str) -> Definitions:
    """The classes and functions of a file, in their order."""
    nodes = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return {node.name: node for node in nodes}


def public(names: Iterable[str]) -> list[str]:
    """Those that are for others, and the constructor."""
    return [name for name in names if name == "__init__" or not name.startswith("_")]


def own_methods(node: ast.ClassDef) -> dict[str, list[str]]:
    """The constructor and the public methods that a class itself defines, each with its parameters."""
    functions = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
    return {name: parameters(functions[name]) for name in public(functions)}


def methods(node: ast.ClassDef, file: Definitions) -> dict[str, list[str]]:
    """Those of a class and of its bases in the same file.

    Gluon's own ``forward`` hands on to ``hybrid_forward``: where a class has no ``forward``, that one stands for it,
    without F, the module of operations.
    """
    found: dict[str, list[str]] = {}
    for base in node.bases:
        above = file.get(ast.unparse(base))
        found |= methods(above, file) if isinstance(above, ast.ClassDef) else {}
    for name, names in own_methods(node).items():
        if name != "hybrid_forward":
            found[name] = names
        elif "forward" not in found | own_methods(node):
            found["forward"] = [one for one in names if one != "F"]
    return found


def new_methods(node: ast.ClassDef, file: Definitions) -> set[str]:
    """The names of the methods that a class does not have from a public base."""
    found = {name.removeprefix("hybrid_") for name in own_methods(node)}
    for base in node.bases:
        above = file.get(ast.unparse(base))
        if isinstance(above, ast.ClassDef) and above.name.startswith("_"):
            found |= new_methods(above, file)
    return found


def differences(module: str, torch_source: str, mxnet_source: str) -> list[str]:
    """What differs between the public parts of twin files, a line each."""
    one, two = definitions(torch_source), definitions(mxnet_source)
    lines = [f"{module}.{name}: only in mxnet" for name in public(two) if name not in one]
    lines += order_difference(module, public(one), public(two))
    for name in public(one):
        node, twin = one[name], two.get(name)
        where = f"{module}.{name}"
        if isinstance(node, ast.ClassDef) and isinstance(twin, ast.ClassDef):
            lines += method_differences(where, node, twin, one, two)
        elif isinstance(node, ast.FunctionDef) and isinstance(twin, ast.FunctionDef):
            lines += parameter_differences(where, parameters(node), parameters(twin))
        elif twin is not None:
            lines.append(f"{where}: a class in one, a function in the other")
    return lines


def method_differences(
    where: str, node: ast.ClassDef, twin: ast.ClassDef, torch_file: Definitions, mxnet_file: Definitions
) -> list[str]:
    """What differs between the methods of two classes. What both inherit is compared where it is defined.

    A private base has no twin to be compared with, so its methods count as the class's own.
    """
    defined = new_methods(node, torch_file) | new_methods(twin, mxnet_file)
    one = {name: names for name, names in methods(node, torch_file).items() if name in defined}
    two = {name: names for name, names in methods(twin, mxnet_file).items() if name in defined}
    lines = [f"{where}.{name}: only in torch" for name in one if name not in two]
    lines += [f"{where}.{name}: only in mxnet" for name in two if name not in one]
    lines += order_difference(where, one, two)
    for name in one:
        if name in two:
            lines += parameter_differences(f"{where}.{name}", one[name], two[name])
    return lines


def parameter_differences(where: str, one: list[str], two: list[str]) -> list[str]:
    """Parameters that only one has, or has with another default; another order of those that both have."""
    lines = [f"{where}({name}): only in torch" for name in one if name not in two]
    lines += [f"{where}({name}): only in mxnet" for name in two if name not in one]
    return lines + order_difference(where, one, two)


def order_difference(where: str, one: Iterable[str], two: Iterable[str]) -> list[str]:
    """A line if what both have stands in another order."""
    first, second = list(one), list(two)
    same = [name for name in first if name in second] == [name for name in second if name in first]
    return [] if same else [f"{where}: in another order"]


@pytest.fixture(scope="module")
def found(root: Path) -> list[str]:
    """Every difference between the editions."""
    lines = []
    for path in sorted((root / "d2lbert" / "mxnet").glob("*.py")):
        twin = root / "d2lbert" / "torch" / path.name
        if path.name not in OWN and twin.is_file():
            lines += differences(path.stem, twin.read_text(encoding="utf-8"), path.read_text(encoding="utf-8"))
    return lines


def test_every_file_has_its_twin(root: Path) -> None:
    ours = {path.name for path in (root / "d2lbert" / "mxnet").glob("*.py")}
    theirs = {path.name for path in (root / "d2lbert" / "torch").glob("*.py")}
    assert sorted(ours - theirs - set(OWN)) == []
    assert set(OWN) <= ours


def test_editions_differ_only_where_there_is_a_reason(found: list[str]) -> None:
    assert [line for line in found if line not in EXCEPTIONS] == [], "make both the same, or give a reason"


def test_every_exception_is_there(found: list[str]) -> None:
    assert [line for line in EXCEPTIONS if line not in found] == [], "these are gone: strike them out"


TORCH = """
class Layer(nn.Module):
    def __init__(self, size): ...
    def forward(self, x, mask=None): ...
    def _private(self): ...

class Model(Layer):
    def forward(self, x, mask=None, *, all=False): ...
    def save(self, folder): ...
    def load(self, folder): ...

def f(a, b=1): ...

def g(a): ...

class Cache: ...
"""
MXNET = """
class Layer(Block):
    def __init__(self, size): ...
    def hybrid_forward(self, F, x, mask=None): ...

class Model(Layer):
    def forward(self, x, mask=None, *, all=False): ...
    def hybrid_forward(self, F, x): ...
    def save(self, folder): ...
    def load(self, folder): ...
    def _other(self): ...

def f(a, b=1): ...

def g(a): ...
"""


def test_twins_may_differ_in_what_is_their_own() -> None:
    assert differences("m", TORCH, MXNET) == []


@pytest.mark.parametrize(
    ("right", "wrong", "lines"),
    [
        ("def f(a, b=1)", "def f(c, b=1)", ["m.f(a): only in torch", "m.f(c): only in mxnet"]),
        ("def f(a, b=1)", "def f(a, b=2)", ["m.f(b=1): only in torch", "m.f(b=2): only in mxnet"]),
        (
            "def f(a, b=1)",
            "def f(a, b=1, *names, **more)",
            ["m.f(*names): only in mxnet", "m.f(**more): only in mxnet"],
        ),
        ("def f(a, b=1)", "def f(b=1, *, a)", ["m.f(a): only in torch", "m.f(*, a): only in mxnet"]),
        ("def f(a, b=1): ...", "def h(): ...", ["m.h: only in mxnet"]),
        ("def f(a, b=1): ...", "class f: ...", ["m.f: a class in one, a function in the other"]),
        ("def f(a, b=1): ...\n\ndef g(a): ...", "def g(a): ...\n\ndef f(a, b=1): ...", ["m: in another order"]),
        ("F, x, mask=None", "F, x", ["m.Layer.forward(mask=None): only in torch"]),
        ("    def save(self, folder): ...\n", "", ["m.Model.save: only in torch"]),
        ("_other", "other", ["m.Model.other: only in mxnet"]),
        (
            "*, all=False",
            "all=False",
            ["m.Model.forward(*, all=False): only in torch", "m.Model.forward(all=False): only in mxnet"],
        ),
    ],
)
def test_a_difference_is_seen(right: str, wrong: str, lines: list[str]) -> None:
    assert MXNET.count(right) == 1
    assert differences("m", TORCH, MXNET.replace(right, wrong)) == lines


def test_an_inherited_forward_is_compared() -> None:
    """A class of one edition may leave to its base what the other writes anew."""
    inherits = MXNET.replace("    def forward(self, x, mask=None, *, all=False): ...\n", "")
    assert differences("m", TORCH, inherits) == ["m.Model.forward(*, all=False): only in torch"]


def test_a_private_base_counts() -> None:
    based = MXNET.replace("class Layer(Block):", "class _Base(Block):\n    def more(self): ...\n\nclass Layer(_Base):")
    assert differences("m", TORCH, based) == ["m.Layer.more: only in mxnet"]


def test_another_order_is_seen() -> None:
    turned = MXNET.replace("def f(a, b=1)", "def f(b=1, a=0)")
    torch_source = TORCH.replace("def f(a, b=1)", "def f(a=0, b=1)")
    assert differences("m", torch_source, turned) == ["m.f: in another order"]
    methods_turned = MXNET.replace("save", "other").replace("load", "save").replace("def other", "def load")
    assert differences("m", TORCH, methods_turned) == ["m.Model: in another order"]
