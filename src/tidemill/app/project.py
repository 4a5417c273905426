"""A user's project: imports the workflow files and collects their declarations."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module, invalidate_caches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tidemill.api.documents.tasks import SourceResolver
from tidemill.api.workflow import Workflow as WorkflowApi
from tidemill.errors import ConfigError, TidemillError, WorkflowError
from tidemill.model.analysis import SchemaKnowledge
from tidemill.model.change import Updates
from tidemill.model.code import trace_code
from tidemill.model.error_summary import summarize_error
from tidemill.model.identity import compute_identity
from tidemill.model.source_code import is_project
from tidemill.model.workflow import WorkflowSpec

_MODULE_PREFIX = "tidemill_workflow_"
"""The prefix of the module names of workflow files."""


@dataclass(frozen=True, slots=True)
class Project:
    """The declarations of a project's workflow files, and their modules."""

    workflows: tuple[WorkflowSpec, ...]
    modules: tuple[ModuleType, ...] = ()

    def apply_knowledge(self, knowledge: SchemaKnowledge) -> Project:
        """The same project, resolved with this knowledge of its queries and channels."""
        return replace(self, workflows=tuple(w.resolve(knowledge) if w.resolve else w for w in self.workflows))

    def list_updates(self) -> dict[str, Updates]:
        """The merge kind of each declared channel, including the user's functions."""
        return {c.name: c.updates for w in self.workflows for c in w.channels}


def load_project(directory: Path, files: Sequence[str]) -> Project:
    """Import the files and collect the workflows that they define at top level."""
    modules = tuple(_import_file(directory / f) for f in files)
    workflows = {id(v): v for m in modules for v in vars(m).values() if isinstance(v, WorkflowApi)}
    if not workflows and files:
        names = ", ".join(files)
        raise ConfigError(f"{names}: no workflow is defined; write e.g. wf = tm.Workflow('name') at top level")
    return Project(tuple(w.build_spec() for w in workflows.values()), modules)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"workflow file {path} does not exist; see 'workflows' in tidemill.toml")
    name = f"{_MODULE_PREFIX}{path.stem}_{compute_identity(str(path))[:8]}"
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
    except (Exception, SystemExit) as error:
        raise WorkflowError([f"{path} cannot be imported: {summarize_error(error)}"]) from error
    return module


def build_source_resolver(directory: Path, ship: Callable[[ModuleType], None]) -> SourceResolver:
    """Resolves names in one-shot workflows: files relative to the project, functions of its or installed modules.

    `ship` is called with each module of the project, so that workers can import it.
    """
    read, find = (lambda path: _read_bytes(directory / path)), _FunctionFinder(directory, ship)
    return SourceResolver(read, find, lambda path: str((directory / path).resolve()))


class _FunctionFinder:
    """Finds functions in the current versions of their files, since files may change while a server runs.

    If a changed file were not imported again, its old code would run, and its result have the new code's identity.
    """

    def __init__(self, directory: Path, ship: Callable[[ModuleType], None]) -> None:
        self._directory = directory.resolve()
        self._ship = ship
        self._stamps: dict[str, _Stamp] = {}  # of the modules' files when they were imported
        self._import_lock = threading.Lock()

    def __call__(self, name: str) -> Callable[..., Any]:
        module_name, _, attribute = name.partition(":")
        with self._import_lock:
            module = self._import_module(module_name)
        value = getattr(module, attribute, None)
        if not callable(value):
            raise WorkflowError([f"module {module_name!r} has no function {attribute!r}; write it as module:name"])
        function: Callable[..., Any] = value
        return function

    def _import_module(self, name: str) -> ModuleType:
        if str(self._directory) not in sys.path:
            sys.path.insert(0, str(self._directory))
        self._drop_changed_modules()
        try:
            module = import_module(name)
        except (Exception, SystemExit) as error:  # a user's module may raise anything
            raise WorkflowError([f"module {name!r} cannot be imported: {summarize_error(error)}"]) from error
        for own_name, path in self._list_own_modules().items():
            if own_name not in self._stamps:
                self._stamps[own_name] = _read_stamp(path)
                self._ship(sys.modules[own_name])
                _trace_functions(sys.modules[own_name])
        return module

    def _drop_changed_modules(self) -> None:
        """Drop all modules of the project if one has changed, since any of them may use it."""
        own_modules = self._list_own_modules()
        if any(self._stamps.get(name) != _read_stamp(path) for name, path in own_modules.items()):
            for name in own_modules:
                del sys.modules[name]
            self._stamps.clear()
            invalidate_caches()

    def _list_own_modules(self) -> dict[str, Path]:
        """The imported modules of the project, without its workflow files and `__main__`."""
        files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
        paths = {name: Path(file) for name, file in files.items() if file is not None and is_project(file)}
        return {name: path for name, path in paths.items() if self._is_own(name, path)}

    def _is_own(self, name: str, path: Path) -> bool:
        """Whether a module belongs to the project. Python itself may be installed inside its directory."""
        is_inside = path.is_relative_to(self._directory) and not path.is_relative_to(sys.prefix)
        return is_inside and name != "__main__" and not name.startswith(_MODULE_PREFIX)


def _trace_functions(module: ModuleType) -> None:
    """Trace the functions of a module before any of them changes its globals."""
    for function in [v for v in vars(module).values() if isinstance(v, FunctionType | partial)]:
        trace_code(function)


_Stamp = tuple[int, int] | None


def _read_stamp(path: Path) -> _Stamp:
    """The modification time and size of a file, to detect changes; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def locate_program(directory: Path, name: str) -> str:
    """The path of a program of a one-shot workflow: in the project, else beside Python, else found on PATH."""
    candidates = [directory / name, Path(sys.executable).parent / name]
    return str(next((path for path in candidates if path.is_file()), name))


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WorkflowError([f"{path} cannot be read: {error.strerror}; paths are relative to the project"]) from error
