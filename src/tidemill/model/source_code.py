"""Source code of the user's project: parsed modules without comments and docstrings, and the names that code uses."""

import ast
import linecache
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_OURS = str(Path(__file__).resolve().parents[1])
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def is_project(file: str | None) -> bool:
    """Whether this is a file of the user's project, and not of Python, an installed package or Tidemill."""
    if file is None or "site-packages" in file or "dist-packages" in file:
        return False
    return not file.startswith(("<frozen", _OURS, *_LIBRARIES))


def is_project_module(module: ModuleType) -> bool:
    return is_project(getattr(module, "__file__", None))


def resolve_module(name: str) -> ModuleType | str | None:
    """The module if it belongs to the project, imported if necessary; the name of a library module; None if missing."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded if is_project_module(loaded) else name
    top = _find_module_spec(name.partition(".")[0])
    if top is None:
        return None
    return _import_module(name) if is_project(_find_file(top)) else name


def _find_file(spec: ModuleSpec) -> str | None:
    """The module's file, or the directory of a namespace package; None for built-in modules."""
    if spec.has_location:
        return spec.origin
    return next(iter(spec.submodule_search_locations or ()), None)


def _find_module_spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ImportError, ValueError):
        return None


def _import_module(name: str) -> ModuleType | None:
    """Import a module; None if that fails."""
    try:
        __import__(name)
    except ImportError:
        return None
    return sys.modules[name]


def read_tree(file: str, names: Mapping[str, Any] | None = None) -> ast.Module | None:
    """The syntax tree of a file's current content; None if it cannot be read."""
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file, dict(names or {})))
    return parse_source(text) if text else None


@lru_cache(maxsize=256)
def parse_source(text: str) -> ast.Module | None:
    """The syntax tree without comments and docstrings. It is cached: callers must not modify it."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | Definition):
            _drop_docstring(node)
    return tree


def _drop_docstring(node: ast.Module | Definition) -> None:
    if ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]


@lru_cache(maxsize=4096)
def unparse_node(node: ast.AST) -> str:
    """Code as text in uniform formatting, without the decorator that declares it as a task."""
    if not isinstance(node, Definition) or not any(map(_is_task_decorator, node.decorator_list)):
        return ast.unparse(node)
    bare = copy(node)
    bare.decorator_list = list_decorators(node)
    return ast.unparse(bare)


def list_decorators(node: ast.AST) -> list[ast.expr]:
    return [d for d in node.decorator_list if not _is_task_decorator(d)] if isinstance(node, Definition) else []


def _is_task_decorator(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(function, ast.Attribute) and function.attr == "task"


@lru_cache(maxsize=256)
def index_functions(tree: ast.Module) -> dict[tuple[str, int], list[ast.AST]]:
    """By name and first line, the definitions that code may come from: one, or all lambdas that begin on the line."""
    index: dict[tuple[str, int], list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            index.setdefault(("<lambda>", node.lineno), []).append(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            index.setdefault((node.name, first), []).append(node)
    return index


@lru_cache(maxsize=256)
def index_classes(tree: ast.Module) -> dict[str, ast.AST]:
    """By qualified name, the last definition of each class, as in Python."""
    return dict(_list_classes(tree, ""))


def _list_classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, child
            inner = f"{prefix}{child.name}."
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{prefix}{child.name}.<locals>."
        yield from _list_classes(child, inner)


def find_assignments(tree: ast.Module, name: str) -> list[ast.stmt]:
    """The statements of a module that assign a name."""
    return [s for s in tree.body if not isinstance(s, Definition) and name in set(_list_assigned_names(s))]


def _list_assigned_names(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]


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
