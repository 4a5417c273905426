"""What names in code stand for: those that it takes from around it, and those that it imports itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tidemill.model.source_code import known_module


@dataclass(frozen=True, slots=True)
class Library:
    """A module of a library that a function imports itself, or a name in one."""

    name: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A module that a function imports itself, and that cannot be found or imported here."""

    name: str


def cells_of(function: FunctionType) -> dict[str, Any]:
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    return {n: c.cell_contents for n, c in zip(names, cells, strict=True) if _is_filled(c)}


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def names_in(code: CodeType) -> Iterator[str]:
    """Names that code takes from outside, or that are attributes; nested functions included."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


@lru_cache(maxsize=4096)
def chains_in(node: ast.AST) -> tuple[tuple[str, ...], ...]:
    """Each name, with the attributes asked of it: `a.b.c` once, as a whole."""
    return tuple(dict.fromkeys(_all_chains(node)))


def _all_chains(node: ast.AST) -> Iterator[tuple[str, ...]]:
    if isinstance(node, ast.Attribute):
        chain = _dotted(node)
        if chain:
            yield chain
            return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield (node.id,)
    for child in ast.iter_child_nodes(node):
        yield from _all_chains(child)


def _dotted(node: ast.expr) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return (*before, node.attr) if before else ()
    return ()


@lru_cache(maxsize=4096)
def _import_statements(node: ast.AST) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom))


def imports_in(node: ast.AST, package: str) -> Iterator[tuple[str, Any]]:
    """Names that a piece imports itself, with what they stand for."""
    for found in _import_statements(node):
        if isinstance(found, ast.Import):
            for a in found.names:
                name = a.name if a.asname else a.name.partition(".")[0]
                yield a.asname or name, module_named(name)
        else:
            for a in found.names:
                yield a.asname or a.name, _member(source_of(found, package), a.name)


def source_of(statement: ast.ImportFrom, package: str) -> str:
    """The module that it imports from, written out if it is relative."""
    above = package.split(".")
    parts = above[: len(above) - statement.level + 1] if statement.level else []
    return ".".join([*parts, statement.module] if statement.module else parts)


def module_named(name: str) -> ModuleType | Library | Missing:
    found = known_module(name)
    return Library(found) if isinstance(found, str) else found or Missing(name)


def _member(module: str, name: str) -> Any:
    found = module_named(module)
    if not isinstance(found, ModuleType):
        return Library(f"{module}:{name}") if isinstance(found, Library) else found
    return getattr(found, name) if hasattr(found, name) else module_named(f"{module}.{name}")
