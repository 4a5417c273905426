"""Name resolution for code tracing: free names of functions, and names that functions import themselves."""

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
    """A library module, or a name in one, that a function imports itself."""

    name: str


@dataclass(frozen=True, slots=True)
class MissingModule:
    """A module that a function imports itself and that cannot be found or imported in this process."""

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
    """Free names and attribute names of code, including nested functions."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from list_names(constant)


@lru_cache(maxsize=4096)
def list_attribute_chains(node: ast.AST) -> tuple[tuple[str, ...], ...]:
    """Each name with its chain of attributes: `a.b.c` is one chain."""
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
        prefix = _to_dotted_chain(node.value)
        return (*prefix, node.attr) if prefix else ()
    return ()


@lru_cache(maxsize=4096)
def _list_imports(node: ast.AST) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom))


def resolve_imports(node: ast.AST, package: str) -> Iterator[tuple[str, Any]]:
    """Names that a piece of code imports itself, with the objects they refer to."""
    for statement in _list_imports(node):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or name, find_module(name)
        else:
            for alias in statement.names:
                yield alias.asname or alias.name, _find_member(resolve_import_source(statement, package), alias.name)


def resolve_import_source(statement: ast.ImportFrom, package: str) -> str:
    """The absolute name of the module that a statement imports from."""
    package_parts = package.split(".")
    parts = package_parts[: len(package_parts) - statement.level + 1] if statement.level else []
    return ".".join([*parts, statement.module] if statement.module else parts)


def find_module(name: str) -> ModuleType | LibraryName | MissingModule:
    module = resolve_module(name)
    return LibraryName(module) if isinstance(module, str) else module or MissingModule(name)


def _find_member(module: str, name: str) -> Any:
    source = find_module(module)
    if not isinstance(source, ModuleType):
        return LibraryName(f"{module}:{name}") if isinstance(source, LibraryName) else source
    return getattr(source, name) if hasattr(source, name) else find_module(f"{module}.{name}")
