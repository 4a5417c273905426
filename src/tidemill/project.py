"""A user's workflow files: imported, and what they declare collected."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from tidemill.api import Workflow as WorkflowApi
from tidemill.errors import ConfigError, TidemillError, WorkflowError
from tidemill.model.change import Updates
from tidemill.model.flow import Binding
from tidemill.model.identity import identity
from tidemill.model.workflow import Workflow


@dataclass(frozen=True, slots=True)
class Project:
    """What the workflow files of a project declare, and the modules that they are."""

    workflows: tuple[Workflow, ...]
    modules: tuple[ModuleType, ...] = ()

    def binding(self, name: str) -> Binding | None:
        return next((b for w in self.workflows for b in w.bindings if b.name == name), None)

    def updates(self) -> dict[str, Updates]:
        """How each declared channel merges, the user's own functions included."""
        return {c.name: c.updates for w in self.workflows for c in w.channels}


def load_project(directory: Path, files: Sequence[str]) -> Project:
    """Import the files and collect the workflows that they define at top level; without any file there are none."""
    modules = tuple(_imported(directory / f) for f in files)
    found = {id(v): v for m in modules for v in vars(m).values() if isinstance(v, WorkflowApi)}
    if not found and files:
        names = ", ".join(files)
        raise ConfigError(f"{names}: no workflow is defined; write e.g. wf = tm.Workflow('name') at top level")
    return Project(tuple(w.declared() for w in found.values()), modules)


def _imported(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"workflow file {path} does not exist; see 'workflows' in tidemill.toml")
    name = f"tidemill_workflow_{path.stem}_{identity(str(path))[:8]}"
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
