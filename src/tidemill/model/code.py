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

from tidemill.model.canonical_json import NotPlain, is_small, plain, types_in
from tidemill.model.name_resolution import (
    Library,
    Missing,
    cells_of,
    chains_in,
    imports_in,
    module_named,
    names_in,
    source_of,
)
from tidemill.model.source_code import (
    bindings,
    class_definition,
    decorators_of,
    definitions,
    is_project,
    is_project_module,
    known_module,
    parsed,
    text_of,
    tree_of,
)

Json = dict[str, Any]
NOTHING: Mapping[str, Any] = {}

Use = list[Any]
"""What a name stands for: ["piece", number], ["library", name], ["value", JSON] or ["unseen", why]."""


@dataclass(frozen=True, slots=True)
class Walked:
    """All code that something consists of, in the order in which it was met; the first piece is the thing itself.

    `unseen` names what could not be looked into: whether that is the same as before, nobody can tell.
    """

    pieces: tuple[Json, ...]
    unseen: tuple[str, ...]


_seen: WeakKeyDictionary[Callable[..., Any], Walked] = WeakKeyDictionary()


def walked(function: Callable[..., Any]) -> Walked:
    """The code of a function and of all of the project that it needs, as it was when it was first asked for."""
    try:
        found = _seen.get(function)
    except TypeError:  # it cannot be a key, as objects with fields that are called
        return _walk(function)
    if found is None:
        found = _seen[function] = _walk(function)
    return found


def _walk(function: Callable[..., Any]) -> Walked:
    walk = _Walk()
    use = walk.thing(function, getattr(function, "__name__", type(function).__name__))
    if use[0] != "piece":
        walk.add(object(), "", lambda: ("", {"": use}))
    return walk.result()


def walked_script(text: str, name: str) -> Walked:
    """The code of a program, and of the modules of the project that it imports."""
    walk = _Walk()
    tree = parsed(text)
    if tree is None:
        walk.unseen.append(f"{name}: not Python")
        return walk.result()
    walk.add(object(), name, lambda: (text_of(tree), walk.uses(tree, {}, None)))
    return walk.result()


@dataclass(slots=True)
class _Walk:
    pieces: list[Json] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    _numbers: dict[Any, int] = field(default_factory=dict)
    _alive: list[Any] = field(default_factory=list)

    def result(self) -> Walked:
        return Walked(tuple(self.pieces), tuple(dict.fromkeys(self.unseen)))

    def add(self, key: Any, name: str, make: Callable[[], tuple[str, Mapping[str, Use]]]) -> Use:
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

    def thing(self, value: Any, name: str) -> Use:
        """What a value is, as far as it can be told without knowing where its name was bound."""
        value = unwrap(value) if callable(value) else value
        if isinstance(value, partial):
            given = {k: self.thing(v, k) for k, v in sorted(value.keywords.items())}
            return ["partial", self.thing(value.func, name), [self.thing(a, name) for a in value.args], given]
        if isinstance(value, MethodType):
            return ["method", value.__name__, self.thing(value.__self__, name)]
        if isinstance(value, FunctionType) and is_project(value.__code__.co_filename):
            return self.add(value, value.__name__, lambda: self._function(value))
        if isinstance(value, type) and is_project_module(_module_of(value)):
            return self.add(value, value.__name__, lambda: self._class(value))
        if isinstance(value, ModuleType) and is_project_module(value):
            return self.add(value, value.__name__, lambda: self._module(value))
        return self._foreign(value, name)

    def _foreign(self, value: Any, name: str) -> Use:
        if isinstance(value, ModuleType):
            return ["library", value.__name__]
        if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
            return ["library", f"{getattr(value, '__module__', '')}:{value.__qualname__}"]
        return self._values(value, name)

    def _values(self, value: Any, name: str) -> Use:
        """A value, with the code of classes of the project of which it has objects: they have methods."""
        written = _written(value)
        if written is None:
            self.unseen.append(name)
            return ["unseen", type(value).__qualname__]
        own = [t for t in dict.fromkeys(types_in(value)) if is_project_module(_module_of(t))]
        return ["value", *written, *(self.thing(t, t.__name__) for t in own)]

    def _function(self, function: FunctionType) -> tuple[str, dict[str, Use]]:
        tree = tree_of(function.__code__.co_filename, function.__globals__)
        nodes = definitions(tree, function.__code__) if tree is not None else []
        if not nodes:
            self.unseen.append(function.__name__)
        cells = cells_of(function)
        uses = {f"default {i}": self.thing(v, function.__name__) for i, v in enumerate(function.__defaults__ or ())}
        uses |= {f"default {k}": self.thing(v, k) for k, v in (function.__kwdefaults__ or {}).items()}
        for node in nodes:
            uses |= self.uses(node, function.__globals__, tree, cells, frozenset(names_in(function.__code__)))
        return "\n".join(map(text_of, nodes)), uses

    def _class(self, value: type) -> tuple[str, dict[str, Use]]:
        module = _module_of(value)
        tree = tree_of(str(module.__file__))
        node = class_definition(tree, value.__qualname__) if tree is not None else None
        if node is None:
            self.unseen.append(value.__name__)
            return "", {}
        return text_of(node), self.uses(node, vars(module), tree)

    def _module(self, module: ModuleType) -> tuple[str, dict[str, Use]]:
        tree = tree_of(str(module.__file__))
        if tree is None:
            self.unseen.append(module.__name__)
            return "", {}
        return text_of(tree), self.uses(tree, vars(module), tree)

    def uses(
        self,
        node: ast.AST,
        names: Mapping[str, Any],
        tree: ast.Module | None,
        cells: Mapping[str, Any] = NOTHING,
        within: frozenset[str] | None = None,
    ) -> dict[str, Use]:
        """What each name stands for that a piece takes from outside: `within` says which those can be."""
        found: dict[str, Use] = {}
        local = {**cells, **dict(imports_in(node, str(names.get("__package__") or "")))}
        outer = {n.id for d in decorators_of(node) for n in ast.walk(d) if isinstance(n, ast.Name)}
        for chain in chains_in(node):
            root = chain[0]
            if root in local:
                found |= self._chain(_Bound(local[root], root), chain)
            elif root in names and (within is None or root in within or root in outer):
                found |= self._chain(_Bound(names[root], root, names, tree), chain)
        return found

    def _chain(self, bound: _Bound, chain: tuple[str, ...]) -> dict[str, Use]:
        """Of a module of the project only what is named counts, unless the module itself is passed on."""
        used = 1
        while used < len(chain) and bound.has(chain[used]):
            bound, used = bound.within(chain[used]), used + 1
        return {".".join(chain[:used]): self._bound(bound)}

    def _bound(self, bound: _Bound) -> Use:
        """What has no code and no plain value is told by the statements that made it, wherever they stand."""
        if isinstance(bound.value, Library):
            return ["library", bound.value.name]
        if isinstance(bound.value, Missing):
            self.unseen.append(bound.value.name)
            return ["unseen", bound.value.name]
        made = [] if _tells_itself(bound.value) or bound.tree is None else bindings(bound.tree, bound.name)
        if not made:
            return self.thing(bound.value, bound.name)
        source = _imported_from(made[-1], bound)
        if source is not None:
            return self._bound(source)
        return self.add((bound.name, bound.tree), bound.name, lambda: self._statements(made, bound))

    def _statements(self, made: list[ast.stmt], bound: _Bound) -> tuple[str, dict[str, Use]]:
        uses = {name: use for s in made for name, use in self.uses(s, bound.names, bound.tree).items()}
        return "\n".join(map(text_of, made)), uses


@dataclass(frozen=True, slots=True)
class _Bound:
    """A value, and the module in which it goes by a name."""

    value: Any
    name: str
    names: Mapping[str, Any] = field(default_factory=dict)
    tree: ast.Module | None = None

    def has(self, name: str) -> bool:
        return isinstance(self.value, ModuleType) and is_project_module(self.value) and hasattr(self.value, name)

    def within(self, name: str) -> _Bound:
        return _Bound(getattr(self.value, name), name, vars(self.value), tree_of(str(self.value.__file__)))


def _imported_from(statement: ast.stmt, bound: _Bound) -> _Bound | None:
    """The same thing where it was made, if this is a module of the project that only imports it."""
    if not isinstance(statement, ast.ImportFrom):
        return None
    found = module_named(source_of(statement, str(bound.names.get("__package__") or "")))
    name = next(a.name for a in statement.names if bound.name in (a.asname, a.name))
    module = _Bound(found, "")
    return module.within(name) if module.has(name) else None


def _tells_itself(value: Any) -> bool:
    """Has it code, or a value that can be written down?"""
    if isinstance(value, FunctionType | type | ModuleType | MethodType | partial) or hasattr(value, "__qualname__"):
        return True
    return _written(value) is not None


def _written(value: Any) -> tuple[Any] | None:
    """A value that is small and plain, as JSON."""
    try:
        return (plain(value),) if is_small(value) else None
    except NotPlain:
        return None


def _module_of(value: Any) -> ModuleType:
    found = known_module(getattr(value, "__module__", "") or "builtins")
    return found if isinstance(found, ModuleType) else builtins
