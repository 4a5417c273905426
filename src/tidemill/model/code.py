"""The code closure of a function: its source and that of all project code it uses, as text that can be compared.

Formatting, comments, docstrings and module names do not count. These count: the text of the function; the text of
the project's functions and classes that it names, transitively; the values of constants that it names; and the names
of library objects that it uses, but not the libraries' code.

A function is traced once, right after its code was loaded: later values of globals, such as a cache that fills or a
model that is loaded on first use, are not part of the closure. A value that is large at that time or not serializable
is represented by the statements that assign it, and by the names that these use.
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

from tidemill.model import source_code as sources
from tidemill.model.canonical_json import NotSerializable, is_small, list_types, to_canonical_json

Json = dict[str, Any]
EMPTY_MAPPING: Mapping[str, Any] = {}

Use = list[Any]
"""The referent of a name: ["piece", number], ["library", name], ["value", JSON] or ["unseen", reason]."""


@dataclass(frozen=True, slots=True)
class CodeClosure:
    """All code pieces of a function or script in the order of discovery; the first piece is the function itself."""

    pieces: tuple[Json, ...]
    unseen: tuple[str, ...]  # parts whose code could not be read, so that changes of them cannot be detected

    def to_json(self) -> Json:
        return {"function": list(self.pieces), "unseen": list(self.unseen)}


_seen: WeakKeyDictionary[Callable[..., Any], CodeClosure] = WeakKeyDictionary()


def trace_code(function: Callable[..., Any]) -> CodeClosure:
    """The code of a function and of all project code that it uses, as it was on the first call for this function."""
    try:
        closure = _seen.get(function)
    except TypeError:  # not hashable or not weakly referenceable, such as some callable objects
        return _trace_callable(function)
    if closure is None:
        closure = _seen[function] = _trace_callable(function)
    return closure


def _trace_callable(function: Callable[..., Any]) -> CodeClosure:
    tracer = _CodeTracer()
    use = tracer.trace_value(function, getattr(function, "__name__", type(function).__name__))
    if use[0] != "piece":
        tracer.add_piece(object(), "", lambda: ("", {"": use}))
    return tracer.build_closure()


def trace_script(text: str, name: str) -> CodeClosure:
    """The code of a program, and of the project's modules that it imports."""
    tracer = _CodeTracer()
    tree = sources.parse_source(text)
    if tree is None:
        tracer.unseen.append(f"{name}: not Python")
        return tracer.build_closure()
    tracer.add_piece(object(), name, lambda: (sources.unparse_node(tree), tracer.find_uses(tree, {}, None)))
    return tracer.build_closure()


@dataclass(slots=True)
class _CodeTracer:
    pieces: list[Json] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    _numbers: dict[Any, int] = field(default_factory=dict)
    _keys: list[Any] = field(default_factory=list)

    def build_closure(self) -> CodeClosure:
        return CodeClosure(tuple(self.pieces), tuple(dict.fromkeys(self.unseen)))

    def add_piece(self, key: Any, name: str, build: Callable[[], tuple[str, Mapping[str, Use]]]) -> Use:
        """The piece for `key`, built on first use; its number is assigned before, since code may call itself."""
        piece_key = id(key) if not isinstance(key, tuple) else key
        if piece_key not in self._numbers:
            self._keys.append(key)  # so that its id is not reused
            self._numbers[piece_key] = len(self.pieces)
            piece: Json = {"name": name}
            self.pieces.append(piece)
            text, uses = build()
            piece |= {"text": text, "uses": dict(sorted(uses.items()))}
        return ["piece", self._numbers[piece_key]]

    def trace_value(self, value: Any, name: str) -> Use:
        """The use of a value, without knowledge of the statement that bound its name."""
        value = unwrap(value) if callable(value) else value
        if isinstance(value, partial):
            keywords = {k: self.trace_value(v, k) for k, v in sorted(value.keywords.items())}
            return [
                "partial",
                self.trace_value(value.func, name),
                [self.trace_value(a, name) for a in value.args],
                keywords,
            ]
        if isinstance(value, MethodType):
            return ["method", value.__name__, self.trace_value(value.__self__, name)]
        if isinstance(value, FunctionType) and sources.is_project(value.__code__.co_filename):
            return self.add_piece(value, value.__name__, lambda: self._trace_function(value))
        if isinstance(value, type) and sources.is_project_module(_find_module(value)):
            module, name = _find_module(value), value.__name__
            return self.add_piece(value, name, lambda: self._trace_node(name, module, value.__qualname__))
        if isinstance(value, ModuleType) and sources.is_project_module(value):
            return self.add_piece(value, value.__name__, lambda: self._trace_node(value.__name__, value))
        return self._trace_foreign(value, name)

    def _trace_foreign(self, value: Any, name: str) -> Use:
        if isinstance(value, ModuleType):
            return ["library", value.__name__]
        if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
            return ["library", f"{getattr(value, '__module__', '')}:{value.__qualname__}"]
        return self._trace_plain_value(value, name)

    def _trace_plain_value(self, value: Any, name: str) -> Use:
        """A value, with the code of project classes that occur in it, since their methods count."""
        encoded = _to_small_json(value)
        if encoded is None:
            self.unseen.append(name)
            return ["unseen", type(value).__qualname__]
        project_types = [t for t in dict.fromkeys(list_types(value)) if sources.is_project_module(_find_module(t))]
        return ["value", *encoded, *(self.trace_value(t, t.__name__) for t in project_types)]

    def _trace_function(self, function: FunctionType) -> tuple[str, dict[str, Use]]:
        tree = sources.read_tree(function.__code__.co_filename, function.__globals__)
        key = (function.__code__.co_name, function.__code__.co_firstlineno)
        nodes = sources.index_functions(tree).get(key, []) if tree is not None else []
        if not nodes:
            self.unseen.append(function.__name__)
        cells = sources.read_closure_cells(function)
        uses = {
            f"default {i}": self.trace_value(v, function.__name__) for i, v in enumerate(function.__defaults__ or ())
        }
        uses |= {f"default {k}": self.trace_value(v, k) for k, v in (function.__kwdefaults__ or {}).items()}
        for node in nodes:
            uses |= self.find_uses(
                node, function.__globals__, tree, cells, frozenset(sources.list_names(function.__code__))
            )
        return "\n".join(map(sources.unparse_node, nodes)), uses

    def _trace_node(self, name: str, module: ModuleType, qualname: str | None = None) -> tuple[str, dict[str, Use]]:
        """The code of a module, or of the class of this name in it."""
        tree = sources.read_tree(str(module.__file__))
        node = tree if tree is None or qualname is None else sources.index_classes(tree).get(qualname)
        if node is None:
            self.unseen.append(name)
            return "", {}
        return sources.unparse_node(node), self.find_uses(node, vars(module), tree)

    def find_uses(
        self,
        node: ast.AST,
        names: Mapping[str, Any],
        tree: ast.Module | None,
        cells: Mapping[str, Any] = EMPTY_MAPPING,
        global_names: frozenset[str] | None = None,
    ) -> dict[str, Use]:
        """The use of each free name of a piece; `global_names` limits the names that are looked up in globals."""
        uses: dict[str, Use] = {}
        local = {**cells, **dict(sources.resolve_imports(node, str(names.get("__package__") or "")))}
        outer = {n.id for d in sources.list_decorators(node) for n in ast.walk(d) if isinstance(n, ast.Name)}
        for chain in sources.list_attribute_chains(node):
            root = chain[0]
            if root in local:
                uses |= self._trace_chain(_NameBinding(local[root], root), chain)
            elif root in names and (global_names is None or root in global_names or root in outer):
                uses |= self._trace_chain(_NameBinding(names[root], root, names, tree), chain)
        return uses

    def _trace_chain(self, bound: _NameBinding, chain: tuple[str, ...]) -> dict[str, Use]:
        """The use of an attribute chain. Of a project module only the named member counts, if one is named."""
        depth = 1
        while depth < len(chain) and bound.has_member(chain[depth]):
            bound, depth = bound.get_member(chain[depth]), depth + 1
        return {".".join(chain[:depth]): self._trace_binding(bound)}

    def _trace_binding(self, bound: _NameBinding) -> Use:
        """The use of a binding. A value without code or JSON form is represented by the statements that assign it."""
        if isinstance(bound.value, sources.LibraryName):
            return ["library", bound.value.name]
        if isinstance(bound.value, sources.MissingModule):
            self.unseen.append(bound.value.name)
            return ["unseen", bound.value.name]
        statements = (
            []
            if _is_self_describing(bound.value) or bound.tree is None
            else sources.find_assignments(bound.tree, bound.name)
        )
        if not statements:
            return self.trace_value(bound.value, bound.name)
        source = _find_import_source(statements[-1], bound)
        if source is not None:
            return self._trace_binding(source)
        return self.add_piece((bound.name, bound.tree), bound.name, lambda: self._trace_statements(statements, bound))

    def _trace_statements(self, statements: list[ast.stmt], bound: _NameBinding) -> tuple[str, dict[str, Use]]:
        uses = {name: use for s in statements for name, use in self.find_uses(s, bound.names, bound.tree).items()}
        return "\n".join(map(sources.unparse_node, statements)), uses


@dataclass(frozen=True, slots=True)
class _NameBinding:
    """A value, its name, and the namespace and syntax tree of the module that binds it."""

    value: Any
    name: str
    names: Mapping[str, Any] = field(default_factory=dict)
    tree: ast.Module | None = None

    def has_member(self, name: str) -> bool:
        return (
            isinstance(self.value, ModuleType) and sources.is_project_module(self.value) and hasattr(self.value, name)
        )

    def get_member(self, name: str) -> _NameBinding:
        return _NameBinding(
            getattr(self.value, name), name, vars(self.value), sources.read_tree(str(self.value.__file__))
        )


def _find_import_source(statement: ast.stmt, bound: _NameBinding) -> _NameBinding | None:
    """The binding in the module that defines the name, if `statement` imports it from a project module."""
    if not isinstance(statement, ast.ImportFrom):
        return None
    module = sources.find_module(sources.resolve_import_source(statement, str(bound.names.get("__package__") or "")))
    name = next(a.name for a in statement.names if bound.name in (a.asname, a.name))
    source = _NameBinding(module, "")
    return source.get_member(name) if source.has_member(name) else None


def _is_self_describing(value: Any) -> bool:
    """Whether the value has code or a small JSON form."""
    if isinstance(value, FunctionType | type | ModuleType | MethodType | partial) or hasattr(value, "__qualname__"):
        return True
    return _to_small_json(value) is not None


def _to_small_json(value: Any) -> tuple[Any] | None:
    """The JSON of a value in a 1-tuple; None if it is large or not serializable."""
    try:
        return (to_canonical_json(value),) if is_small(value) else None
    except NotSerializable:
        return None


def _find_module(value: Any) -> ModuleType:
    module = sources.resolve_module(getattr(value, "__module__", "") or "builtins")
    return module if isinstance(module, ModuleType) else builtins
