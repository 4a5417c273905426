"""One-shot workflows: a graph of actions that is submitted once, and the work of each action."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ActionId = str
"""The user's number or name of an action; 1 and "1" are the same."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A program. In an argument, `{name}` is the directory of that parent and `{output}` that of the output."""

    command: tuple[str, ...]
    files: tuple[str, ...] = ()  # files that its result depends on, such as the program itself


@dataclass(frozen=True, slots=True)
class Script:
    """A PySpark program in a file, run by spark-submit; its arguments may use the placeholders of a command."""

    script: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A Spark SQL query whose tables are the action's parents."""

    query: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A Python function `module:name` that takes one DataFrame per argument and returns a DataFrame."""

    function: str


Work = CommandLine | Script | Query | FunctionCall


@dataclass(frozen=True, slots=True)
class ActionParent:
    """An action whose output another action reads, and the name under which it reads it."""

    id: ActionId
    name: str


@dataclass(frozen=True, slots=True)
class Action:
    id: ActionId
    name: str  # for people; several actions may have the same
    work: Work
    parents: tuple[ActionParent, ...] = ()  # in port order
    force: bool = False  # compute it even if an equal result exists
    path: str | None = None  # the user's path for the output; None: Tidemill manages it
    pinned: bool = False  # the output is never evicted
    version: str | None = None
    deterministic: bool | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    environment: tuple[str, ...] = ()
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class OneShotWorkflow:
    """A validated workflow: ids are unique, all references resolve, and the graph has no cycle."""

    name: str
    start: ActionId
    end: ActionId
    actions: tuple[Action, ...]

    def sort_actions(self) -> Iterator[Action]:
        """The actions in topological order: parents before their children."""
        by_id = {a.id: a for a in self.actions}
        emitted: set[ActionId] = set()
        stack = list(reversed(self.actions))
        while stack:
            action = stack[-1]
            missing = [by_id[p.id] for p in action.parents if p.id not in emitted]
            if action.id in emitted or not missing:
                stack.pop()
                if action.id not in emitted:
                    emitted.add(action.id)
                    yield action
            else:
                stack += missing

    def list_permanent_actions(self) -> frozenset[ActionId]:
        """Actions whose outputs stay until the user deletes them: the end, leaves, and outputs at the user's paths."""
        inner = {p.id for a in self.actions for p in a.parents}
        return frozenset(a.id for a in self.actions if a.id == self.end or a.id not in inner or a.path is not None)
