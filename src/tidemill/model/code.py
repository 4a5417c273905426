"""What a function does: its code, and that of everything of the project that it calls, as text that can be compared.

Formatting, comments, docstrings and the names of modules do not matter. What does: the text of the function; the text
of functions and classes of the project that it names, and so on from there; the values of constants that it names;
and which things of libraries its names stand for, though not what is in those.

A function is looked at once, when its code was just loaded: what globals hold later, such as a memo that fills or a
model that is loaded when it is first needed, is no part of what it does. What is large then, or cannot be written down,
is told by the statements that made it, and by what these use.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import unwrap
from types import FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from tidemill.model.canonical_json import NotSerializable, is_small, list_types, to_canonical_json
from tidemill.model.name_resolution import (
    LibraryName,
    MissingModule,
    find_module,
    list_attribute_chains,
    list_names,
    read_closure_cells,
    resolve_import_source,
    resolve_imports,
)
from tidemill.model.source_code import (
    find_assignments,
    find_class_definition,
    find_definitions,
    is_project,
    is_project_module,
    list_decorators,
    parse_source,
    read_tree,
    resolve_module,
    unparse_node,
)

Json = dict[str, Any]
NOTHING: Mapping[str, Any] = {}

Use = list[Any]
"""What a name stands for: ["piece", number], ["library", name], ["value", JSON] or ["unseen", why]."""


@dataclass(frozen=True, slots=True)
class CodeClosure:
    """All code that something consists of, in the order in which it was met; the first piece is the thing itself.

    `unseen` names what could not be looked into: whether that is the same as before, nobody can tell.
    """

    pieces: tuple[Json, ...]
    unseen: tuple[str, ...]


_seen: WeakKeyDictionary[Callable[..., Any], CodeClosure] = WeakKeyDictionary()


def trace_code(function: Callable[..., Any]) -> CodeClosure:
    """The code of a function and of all of the project that it needs, as it was when it was first asked for."""
    try:
        found = _seen.get(function)
    except TypeError:  # it cannot be a key, as objects with fields that are called
        return _trace_callable(function)
    if found is None:
        found = _seen[function] = _trace_callable(function)
    return found


def _trace_callable(function: Callable[..., Any]) -> CodeClosure:
    walk = _CodeTracer()
    use = walk.trace_value(function, getattr(function, "__name__", type(function).__name__))
    if use[0] != "piece":
        walk.add_piece(object(), "", lambda: ("", {"": use}))
    return walk.build_closure()


def trace_script(text: str, name: str) -> CodeClosure:
    """The code of a program, and of the modules of the project that it imports."""
    walk = _CodeTracer()
    tree = parse_source(text)
    if tree is None:
        walk.unseen.append(f"{name}: not Python")
        return walk.build_closure()
    walk.add_piece(object(), name, lambda: (unparse_node(tree), walk.find_uses(tree, {}, None)))
    return walk.build_closure()


@dataclass(slots=True)
class _CodeTracer:
    pieces: list[Json] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    _numbers: dict[Any, int] = field(default_factory=dict)
    _alive: list[Any] = field(default_factory=list)

    def build_closure(self) -> CodeClosure:
        return CodeClosure(tuple(self.pieces), tuple(dict.fromkeys(self.unseen)))

    def add_piece(self, key: Any, name: str, make: Callable[[], tuple[str, Mapping[str, Use]]]) -> Use:
        """A piece, made only when it is first met; its number is known before, since code may call itself."""
        at = id(key) if not isinstance(key, tuple) else key
        if at not in self._numbers:
            self._alive.append(key)  # so that nothing else gets its id
            self._numbers[at] = len(self.pieces)
            piece: Json = {"name": name}
            self.pieces.append(piece)
            text, uses = make()
            piece |= {"text": text, "uses": dict(sorted(uses.items()))}
        return ["piece", self._numbers[at]]

    def trace_value(self, value: Any, name: str) -> Use:
        """What a value is, as far as it can be told without knowing where its name was bound."""
        value = unwrap(value) if callable(value) else value
        if isinstance(value, partial):
            given = {k: self.trace_value(v, k) for k, v in sorted(value.keywords.items())}
            return [
                "partial",
                self.trace_value(value.func, name),
                [self.trace_value(a, name) for a in value.args],
                given,
            ]
        if isinstance(value, MethodType):
            return ["method", value.__name__, self.trace_value(value.__self__, name)]
        if isinstance(value, FunctionType) and is_project(value.__code__.co_filename):
            return self.add_piece(value, value.__name__, lambda: self._trace_function(value))
        if isinstance(value, type) and is_project_module(_find_module(value)):
            return self.add_piece(value, value.__name__, lambda: self._trace_class(value))
        if isinstance(value, ModuleType) and is_project_module(value):
            return self.add_piece(value, value.__name__, lambda: self._trace_module(value))
        return self._trace_foreign(value, name)

    def _trace_foreign(self, value: Any, name: str) -> Use:
        if isinstance(value, ModuleType):
            return ["library", value.__name__]
        if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
            return ["library", f"{getattr(value, '__module__', '')}:{value.__qualname__}"]
        return self._trace_plain_value(value, name)

    def _trace_plain_value(self, value: Any, name: str) -> Use:
        """A value, with the code of classes of the project of which it has objects: they have methods."""
        written = _to_small_json(value)
        if written is None:
            self.unseen.append(name)
            return ["unseen", type(value).__qualname__]
        own = [t for t in dict.fromkeys(list_types(value)) if is_project_module(_find_module(t))]
        return ["value", *written, *(self.trace_value(t, t.__name__) for t in own)]

    def _trace_function(self, function: FunctionType) -> tuple[str, dict[str, Use]]:
        tree = read_tree(function.__code__.co_filename, function.__globals__)
        nodes = find_definitions(tree, function.__code__) if tree is not None else []
        if not nodes:
            self.unseen.append(function.__name__)
        cells = read_closure_cells(function)
        uses = {
            f"default {i}": self.trace_value(v, function.__name__) for i, v in enumerate(function.__defaults__ or ())
        }
        uses |= {f"default {k}": self.trace_value(v, k) for k, v in (function.__kwdefaults__ or {}).items()}
        for node in nodes:
            uses |= self.find_uses(node, function.__globals__, tree, cells, frozenset(list_names(function.__code__)))
        return "\n".join(map(unparse_node, nodes)), uses

    def _trace_class(self, value: type) -> tuple[str, dict[str, Use]]:
        module = _find_module(value)
        tree = read_tree(str(module.__file__))
        node = find_class_definition(tree, value.__qualname__) if tree is not None else None
        if node is None:
            self.unseen.append(value.__name__)
            return "", {}
        return unparse_node(node), self.find_uses(node, vars(module), tree)

    def _trace_module(self, module: ModuleType) -> tuple[str, dict[str, Use]]:
        tree = read_tree(str(module.__file__))
        if tree is None:
            self.unseen.append(module.__name__)
            return "", {}
        return unparse_node(tree), self.find_uses(tree, vars(module), tree)

    def find_uses(
        self,
        node: ast.AST,
        names: Mapping[str, Any],
        tree: ast.Module | None,
        cells: Mapping[str, Any] = NOTHING,
        within: frozenset[str] | None = None,
    ) -> dict[str, Use]:
        """What each name stands for that a piece takes from outside: `within` says which those can be."""
        found: dict[str, Use] = {}
        local = {**cells, **dict(resolve_imports(node, str(names.get("__package__") or "")))}
        outer = {n.id for d in list_decorators(node) for n in ast.walk(d) if isinstance(n, ast.Name)}
        for chain in list_attribute_chains(node):
            root = chain[0]
            if root in local:
                found |= self._trace_chain(_NameBinding(local[root], root), chain)
            elif root in names and (within is None or root in within or root in outer):
                found |= self._trace_chain(_NameBinding(names[root], root, names, tree), chain)
        return found

    def _trace_chain(self, bound: _NameBinding, chain: tuple[str, ...]) -> dict[str, Use]:
        """Of a module of the project only what is named counts, unless the module itself is passed on."""
        used = 1
        while used < len(chain) and bound.has_member(chain[used]):
            bound, used = bound.get_member(chain[used]), used + 1
        return {".".join(chain[:used]): self._trace_binding(bound)}

    def _trace_binding(self, bound: _NameBinding) -> Use:
        """What has no code and no plain value is told by the statements that made it, wherever they stand."""
        if isinstance(bound.value, LibraryName):
            return ["library", bound.value.name]
        if isinstance(bound.value, MissingModule):
            self.unseen.append(bound.value.name)
            return ["unseen", bound.value.name]
        made = (
            [] if _is_self_describing(bound.value) or bound.tree is None else find_assignments(bound.tree, bound.name)
        )
        if not made:
            return self.trace_value(bound.value, bound.name)
        source = _find_import_source(made[-1], bound)
        if source is not None:
            return self._trace_binding(source)
        return self.add_piece((bound.name, bound.tree), bound.name, lambda: self._trace_statements(made, bound))

    def _trace_statements(self, made: list[ast.stmt], bound: _NameBinding) -> tuple[str, dict[str, Use]]:
        uses = {name: use for s in made for name, use in self.find_uses(s, bound.names, bound.tree).items()}
        return "\n".join(map(unparse_node, made)), uses


@dataclass(frozen=True, slots=True)
class _NameBinding:
    """A value, and the module in which it goes by a name."""

    value: Any
    name: str
    names: Mapping[str, Any] = field(default_factory=dict)
    tree: ast.Module | None = None

    def has_member(self, name: str) -> bool:
        return isinstance(self.value, ModuleType) and is_project_module(self.value) and hasattr(self.value, name)

    def get_member(self, name: str) -> _NameBinding:
        return _NameBinding(getattr(self.value, name), name, vars(self.value), read_tree(str(self.value.__file__)))


def _find_import_source(statement: ast.stmt, bound: _NameBinding) -> _NameBinding | None:
    """The same thing where it was made, if this is a module of the project that only imports it."""
    if not isinstance(statement, ast.ImportFrom):
        return None
    found = find_module(resolve_import_source(statement, str(bound.names.get("__package__") or "")))
    name = next(a.name for a in statement.names if bound.name in (a.asname, a.name))
    module = _NameBinding(found, "")
    return module.get_member(name) if module.has_member(name) else None


def _is_self_describing(value: Any) -> bool:
    """Has it code, or a value that can be written down?"""
    if isinstance(value, FunctionType | type | ModuleType | MethodType | partial) or hasattr(value, "__qualname__"):
        return True
    return _to_small_json(value) is not None


def _to_small_json(value: Any) -> tuple[Any] | None:
    """A value that is small and plain, as JSON."""
    try:
        return (to_canonical_json(value),) if is_small(value) else None
    except NotSerializable:
        return None


def _find_module(value: Any) -> ModuleType:
    found = resolve_module(getattr(value, "__module__", "") or "builtins")
    return found if isinstance(found, ModuleType) else builtins
