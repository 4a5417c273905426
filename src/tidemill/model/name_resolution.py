"""What names in code stand for: those that it takes from around it, and those that it imports itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tidemill.model.source_code import resolve_module


@dataclass(frozen=True, slots=True)
class LibraryName:
    """A module of a library that a function imports itself, or a name in one."""

    name: str


@dataclass(frozen=True, slots=True)
class MissingModule:
    """A module that a function imports itself, and that cannot be found or imported here."""

    name: str


def read_closure_cells(function: FunctionType) -> dict[str, Any]:
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    return {n: c.cell_contents for n, c in zip(names, cells, strict=True) if _is_filled(c)}


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def list_names(code: CodeType) -> Iterator[str]:
    """Names that code takes from outside, or that are attributes; nested functions included."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from list_names(constant)


@lru_cache(maxsize=4096)
def list_attribute_chains(node: ast.AST) -> tuple[tuple[str, ...], ...]:
    """Each name, with the attributes asked of it: `a.b.c` once, as a whole."""
    return tuple(dict.fromkeys(_find_chains(node)))


def _find_chains(node: ast.AST) -> Iterator[tuple[str, ...]]:
    if isinstance(node, ast.Attribute):
        chain = _to_dotted_chain(node)
        if chain:
            yield chain
            return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield (node.id,)
    for child in ast.iter_child_nodes(node):
        yield from _find_chains(child)


def _to_dotted_chain(node: ast.expr) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        before = _to_dotted_chain(node.value)
        return (*before, node.attr) if before else ()
    return ()


@lru_cache(maxsize=4096)
def _list_imports(node: ast.AST) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom))


def resolve_imports(node: ast.AST, package: str) -> Iterator[tuple[str, Any]]:
    """Names that a piece imports itself, with what they stand for."""
    for found in _list_imports(node):
        if isinstance(found, ast.Import):
            for a in found.names:
                name = a.name if a.asname else a.name.partition(".")[0]
                yield a.asname or name, find_module(name)
        else:
            for a in found.names:
                yield a.asname or a.name, _find_member(resolve_import_source(found, package), a.name)


def resolve_import_source(statement: ast.ImportFrom, package: str) -> str:
    """The module that it imports from, written out if it is relative."""
    above = package.split(".")
    parts = above[: len(above) - statement.level + 1] if statement.level else []
    return ".".join([*parts, statement.module] if statement.module else parts)


def find_module(name: str) -> ModuleType | LibraryName | MissingModule:
    found = resolve_module(name)
    return LibraryName(found) if isinstance(found, str) else found or MissingModule(name)


def _find_member(module: str, name: str) -> Any:
    found = find_module(module)
    if not isinstance(found, ModuleType):
        return LibraryName(f"{module}:{name}") if isinstance(found, LibraryName) else found
    return getattr(found, name) if hasattr(found, name) else find_module(f"{module}.{name}")
