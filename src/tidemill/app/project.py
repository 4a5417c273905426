"""A user's workflow files: imported, and what they declare collected."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module, invalidate_caches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from tidemill.api import Workflow as WorkflowApi
from tidemill.api.documents import SourceResolver
from tidemill.errors import ConfigError, TidemillError, WorkflowError
from tidemill.model.analysis import SchemaKnowledge
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.identity import compute_identity
from tidemill.model.source_code import is_project
from tidemill.model.workflow import WorkflowSpec

_WORKFLOW = "tidemill_workflow_"
"""How the names of workflow files begin, as modules."""


@dataclass(frozen=True, slots=True)
class Project:
    """What the workflow files of a project declare, and the modules that they are."""

    workflows: tuple[WorkflowSpec, ...]
    modules: tuple[ModuleType, ...] = ()

    def find_binding(self, name: str) -> BoundFlow | None:
        return next((b for w in self.workflows for b in w.bindings if b.name == name), None)

    def apply_knowledge(self, knowledge: SchemaKnowledge) -> Project:
        """The same project with this much known of its queries and channels."""
        return replace(self, workflows=tuple(w.resolve(knowledge) if w.resolve else w for w in self.workflows))

    def list_updates(self) -> dict[str, Updates]:
        """How each declared channel merges, the user's own functions included."""
        return {c.name: c.updates for w in self.workflows for c in w.channels}


def load_project(directory: Path, files: Sequence[str]) -> Project:
    """Import the files and collect the workflows that they define at top level; without any file there are none."""
    modules = tuple(_import_file(directory / f) for f in files)
    found = {id(v): v for m in modules for v in vars(m).values() if isinstance(v, WorkflowApi)}
    if not found and files:
        names = ", ".join(files)
        raise ConfigError(f"{names}: no workflow is defined; write e.g. wf = tm.Workflow('name') at top level")
    return Project(tuple(w.declared() for w in found.values()), modules)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"workflow file {path} does not exist; see 'workflows' in tidemill.toml")
    name = f"{_WORKFLOW}{path.stem}_{compute_identity(str(path))[:8]}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"workflow file {path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except TidemillError:
        raise
    except SyntaxError as error:
        raise WorkflowError([f"{path}:{error.lineno}: {error.msg}"]) from error
    except Exception as error:
        lines = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = lines[-1].lineno if lines else 0
        raise WorkflowError([f"{path}:{line}: {type(error).__name__}: {error}"]) from error
    return module


def build_source_resolver(directory: Path, ship: Callable[[ModuleType], None]) -> SourceResolver:
    """What one-shot workflows name: files relative to the project, functions of modules in it or installed.

    `ship` is given each module of the project, so that workers can have it too.
    """
    read, find = (lambda path: _read_bytes(directory / path)), _FunctionFinder(directory, ship)
    return SourceResolver(read, find, lambda path: str((directory / path).resolve()))


class _FunctionFinder:
    """Finds functions as their files stand now. A server lives longer than what it imported.

    Were a changed file not imported again, its old code would run and its result be known by the new.
    """

    def __init__(self, directory: Path, ship: Callable[[ModuleType], None]) -> None:
        self._directory = directory.resolve()
        self._ship = ship
        self._stamps: dict[str, _Stamp] = {}  # of the modules' files when they were imported
        self._importing = threading.Lock()

    def __call__(self, name: str) -> Callable[..., Any]:
        where, _, what = name.partition(":")
        with self._importing:
            module = self._import_module(where)
        found = getattr(module, what, None)
        if not callable(found):
            raise WorkflowError([f"module {where!r} has no function {what!r}; write it as module:name"])
        function: Callable[..., Any] = found
        return function

    def _import_module(self, name: str) -> ModuleType:
        if str(self._directory) not in sys.path:
            sys.path.insert(0, str(self._directory))
        self._drop_changed_modules()
        try:
            module = import_module(name)
        except Exception as error:  # a user's module may raise anything
            raise WorkflowError([f"module {name!r} cannot be imported: {type(error).__name__}: {error}"]) from error
        for own, path in self._list_own_modules().items():
            if own not in self._stamps:
                self._stamps[own] = _read_stamp(path)
                self._ship(sys.modules[own])
        return module

    def _drop_changed_modules(self) -> None:
        """If one has changed, all go: any of them may have taken something from it."""
        own = self._list_own_modules()
        if any(self._stamps.get(name) != _read_stamp(path) for name, path in own.items()):
            for name in own:
                del sys.modules[name]
            self._stamps.clear()
            invalidate_caches()

    def _list_own_modules(self) -> dict[str, Path]:
        """The modules of the project that are imported, but for its workflow files and the program that runs."""
        files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
        paths = {name: Path(file) for name, file in files.items() if file is not None and is_project(file)}
        return {name: path for name, path in paths.items() if self._is_own(name, path)}

    def _is_own(self, name: str, path: Path) -> bool:
        """Python itself may be installed inside the project."""
        within = path.is_relative_to(self._directory) and not path.is_relative_to(sys.prefix)
        return within and name != "__main__" and not name.startswith(_WORKFLOW)


_Stamp = tuple[int, int] | None


def _read_stamp(path: Path) -> _Stamp:
    """What another content of a file would show in; None if it is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def locate_program(directory: Path, name: str) -> str:
    """Where a program or script is that a one-shot workflow names: in the project, else beside Python, else on PATH."""
    near = [directory / name, Path(sys.executable).parent / name]
    return str(next((path for path in near if path.is_file()), name))


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WorkflowError([f"{path} cannot be read: {error.strerror}; paths are relative to the project"]) from error
