"""One-shot workflows: a graph of actions that is submitted once, and what each action does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ActionId = str
"""As the user numbers or names it; 1 and "1" are the same."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A program. `{name}` in an argument stands for the directory of that parent, `{output}` for that of the output."""

    command: tuple[str, ...]
    files: tuple[str, ...] = ()  # that its result depends on, such as the program itself


@dataclass(frozen=True, slots=True)
class Script:
    """A PySpark program in a file, run by spark-submit; its arguments may hold what those of a command may."""

    script: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A Spark SQL query whose tables are the action's parents."""

    query: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A Python function `module:name` from DataFrames, one an argument, to a DataFrame."""

    function: str


Work = CommandLine | Script | Query | FunctionCall


@dataclass(frozen=True, slots=True)
class ActionParent:
    """What an action reads, and under which name."""

    id: ActionId
    name: str


@dataclass(frozen=True, slots=True)
class Action:
    id: ActionId
    name: str  # for people; several actions may have the same
    work: Work
    parents: tuple[ActionParent, ...] = ()  # in port order
    force: bool = False  # compute it even if the same was computed before
    path: str | None = None  # where the user wants the output; None: Tidemill manages it
    pinned: bool = False  # the output is never evicted
    version: str | None = None
    deterministic: bool | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    environment: tuple[str, ...] = ()
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class OneShotWorkflow:
    """A checked workflow: ids are unique, all that is named is there, and nothing depends on itself."""

    name: str
    start: ActionId
    end: ActionId
    actions: tuple[Action, ...]

    def sort_actions(self) -> Iterator[Action]:
        """Parents before their children."""
        by_id = {a.id: a for a in self.actions}
        done: set[ActionId] = set()
        ahead = list(reversed(self.actions))
        while ahead:
            at = ahead[-1]
            missing = [by_id[p.id] for p in at.parents if p.id not in done]
            if at.id in done or not missing:
                ahead.pop()
                if at.id not in done:
                    done.add(at.id)
                    yield at
            else:
                ahead += missing

    def list_permanent_actions(self) -> frozenset[ActionId]:
        """What stays until its user deletes it: the end, what nothing follows from, and outputs at the user's paths."""
        inner = {p.id for a in self.actions for p in a.parents}
        return frozenset(a.id for a in self.actions if a.id == self.end or a.id not in inner or a.path is not None)
