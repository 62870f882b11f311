"""Signatures and docstrings of the reference, as reStructuredText, from what ``package_source`` has parsed."""

from __future__ import annotations

import ast
import copy
import inspect
import re

from package_source import Definition, Function, Module, definition, modules, resolve
from sphinx.ext.napoleon import Config, GoogleDocstring

_NAPOLEON = Config(napoleon_custom_sections=[("Fields", "params_style"), ("Attributes", "params_style")])
_RETURNED = re.compile(r"^(returns|yields):\n\s+", flags=re.IGNORECASE | re.MULTILINE)
_LONGEST_VALUE = 100
_BOUNDS = {"above": "above", "at_least": "at least", "below": "below", "at_most": "at most"}


class _FullNames(ast.NodeTransformer):
    """Write the names of an annotation in full, where the package defines them: so they become links."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace the name of a class of the package; other names cannot be linked in an annotation."""
        full = resolve(f"{self.module.name}.{node.id}")
        is_class = full is not None and isinstance(definition(full), ast.ClassDef)
        return ast.parse(full, mode="eval").body if full and is_class else node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """Read an annotation that stands in quotes."""
        if not isinstance(node.value, str):
            return node
        return self.visit(ast.parse(node.value, mode="eval").body)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Leave the texts of a ``Literal`` alone."""
        if ast.unparse(node.value) == "Literal":
            return node
        return self.generic_visit(node)


def annotation(node: ast.expr, module: Module) -> str:
    """Return an annotation of a module with the package's names in full."""
    return ast.unparse(_FullNames(module).visit(copy.deepcopy(node)))


def signature(function: Function, module: Module, bound: bool = False) -> str:
    """Return ``(a: int, b: str = 'x') -> float``.

    Args:
        function: the definition.
        module: where it stands.
        bound: leave out the first parameter, ``self`` or ``cls``.
    """
    given = copy.deepcopy(function.args)
    if bound:
        (given.posonlyargs or given.args).pop(0)
    for one in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]:
        if one is not None and one.annotation is not None:
            one.annotation = _FullNames(module).visit(one.annotation)
    returned = f" -> {annotation(function.returns, module)}" if function.returns is not None else ""
    return f"({ast.unparse(given)}){returned}"


def class_signature(node: ast.ClassDef, module: Module) -> str:
    """Return what a class is called with: of its ``__init__``, its fields, or that of its base; empty if unknown."""
    for method in methods(node):
        if method.name == "__init__":
            return signature(method, module, bound=True).removesuffix(" -> None")
    parents = [found for base in node.bases if (found := _class_of(base, module))]
    if fields := _all_fields(node, module):
        kinds = {ast.unparse(base).split("[")[0] for base in node.bases}
        if is_dataclass(node) or "NamedTuple" in kinds:
            shown = [f"{name}: {kind}" + (f" = {value}" if value else "") for name, (kind, value) in fields.items()]
            return f"({', '.join(shown)})"
    return class_signature(*parents[0]) if parents else ""


def is_dataclass(node: ast.ClassDef) -> bool:
    """Whether a class has the decorator of dataclasses."""
    return any(ast.unparse(one).split("(")[0].endswith("dataclass") for one in node.decorator_list)


def methods(node: ast.ClassDef) -> list[Function]:
    """Return the methods and properties of a class, in its order."""
    return [one for one in node.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]


def decorators(function: Function) -> set[str]:
    """Return the names of what decorates a function, without their arguments."""
    return {ast.unparse(one).split("(")[0] for one in function.decorator_list}


def _class_of(base: ast.expr, module: Module) -> tuple[ast.ClassDef, Module] | None:
    full = resolve(f"{module.name}.{ast.unparse(base).split('[')[0]}")
    node = definition(full) if full else None
    return (node, modules()[full.rpartition(".")[0]]) if full and isinstance(node, ast.ClassDef) else None


def bases(node: ast.ClassDef, module: Module) -> list[str]:
    """Return the full names of the bases that the package defines."""
    found = [resolve(f"{module.name}.{ast.unparse(base).split('[')[0]}") for base in node.bases]
    return [name for name in found if name]


def _all_fields(node: ast.ClassDef, module: Module) -> dict[str, tuple[str, str]]:
    """Return type and default of each field of a dataclass, those of its bases first."""
    found: dict[str, tuple[str, str]] = {}
    for base in node.bases:
        if parent := _class_of(base, module):
            found |= _all_fields(*parent)
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            kind = annotation(one.annotation, module)
            if "ClassVar" not in kind:
                found[one.target.id] = (kind, _default(one.value))
    return found


def _default(value: ast.expr | None) -> str:
    """Return the default of a field: of a setting, its first argument."""
    if not isinstance(value, ast.Call):
        return ast.unparse(value) if value is not None else ""
    if ast.unparse(value.func) == "setting":
        return ast.unparse(value.args[0])
    given = {one.arg: one.value for one in value.keywords}
    if "default_factory" in given:
        return f"{ast.unparse(given['default_factory'])}()"
    return ast.unparse(given.get("default", value))


def settings_of(node: ast.ClassDef, module: Module) -> str:
    """Return, for a class of settings, the section of its docstring that its fields make; empty for other classes.

    A field's line has its meaning and the values that it may have.
    """
    lines = []
    for one in node.body:
        call = one.value if isinstance(one, ast.AnnAssign) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "setting":
            given = {keyword.arg: _text(keyword.value, module) for keyword in call.keywords}
            limits = [f"{words} {given[name]}" for name, words in _BOUNDS.items() if name in given]
            rule = f" ({' and '.join(limits)})" if limits else ""
            lines.append(f"\n    {ast.unparse(one.target)}: {_text(call.args[1], module)}{rule}")
    return f"\n\nFields:{''.join(lines)}\n" if lines else ""


def _text(node: ast.expr, module: Module) -> str:
    """Return a text or a number as it is read; a name stands for the constant that it names."""
    full = resolve(f"{module.name}.{node.id}") if isinstance(node, ast.Name) else None
    named = definition(full) if full else None
    if full and isinstance(named, (ast.Assign, ast.AnnAssign)) and named.value is not None:
        return _text(named.value, modules()[full.rpartition(".")[0]])
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


def described(text: str) -> list[str]:
    """Return a docstring as lines of reStructuredText: its Args, Returns and Raises are lists of fields."""
    # In a section of what is returned Napoleon takes the words before a colon for a type; here they are a name.
    text = _RETURNED.sub(lambda found: f":{found[1].lower()}: ", inspect.cleandoc(text))
    return [*str(GoogleDocstring(text, _NAPOLEON)).splitlines(), ""]  # a line may hold several


def value_of(node: Definition) -> str:
    """Return the value of a constant in one short line; empty where it is long."""
    value = getattr(node, "value", None)
    text = " ".join(ast.unparse(value).split()) if value is not None else ""
    return text if len(text) <= _LONGEST_VALUE else ""
