"""Actions as tasks: from here on they are like any other, in how they run and in how they are recognised."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.errors import WorkflowError
from tidemill.model.action import Action, Call, CommandLine, OneShot, Query, Script
from tidemill.model.block import Kind
from tidemill.model.code import Json, walked_script
from tidemill.model.task import Code, Command, Function, Mode, Read, Retry, Sql, Task, Variant, Write
from tidemill.retain.memo import Node

OUTPUT = "output"
SUBMIT = "spark-submit"
KINDS = {CommandLine: "command-line", Script: "pyspark-script", Query: "spark-sql", Call: "python-function"}
"""What the types of actions are called in JSON."""


@dataclass(frozen=True, slots=True)
class Sources:
    """How to get at what actions name: the bytes of a file by its path, a function by `module:name`.

    Both raise `WorkflowError` if there is no such thing.
    """

    read: Callable[[str], bytes]
    find: Callable[[str], Callable[..., Any]]


def nodes_of(workflow: OneShot, sources: Sources) -> list[Node]:
    """The actions as nodes that the memo can name, parents before their children.

    Raises `WorkflowError` with everything that actions name and that is not there.
    """
    tasks, problems = dict[str, Task](), list[str]()
    for at, action in enumerate(workflow.actions):
        try:
            tasks[action.id] = task_of(action, sources)
        except WorkflowError as error:
            problems += [f"/actions/{at}: {problem}" for problem in error.problems]
    if problems:
        raise WorkflowError(problems)
    return [Node(a.id, tasks[a.id], tuple(p.id for p in a.parents), a.force, OUTPUT) for a in workflow.in_order()]


def task_of(action: Action, sources: Sources) -> Task:
    reads = tuple(Read(p.name, channel_of(p.id), Mode.ALL) for p in action.parents)
    writes = (Write(OUTPUT, channel_of(action.id), Kind.BASE),)
    return Task(
        name=action.name,
        variants=(Variant("one-shot", reads, writes, _code(action, sources)),),
        parameters=action.parameters,
        retry=Retry(action.attempts),
        version=action.version,
        environment=action.environment,
        deterministic=action.deterministic,
    )


def channel_of(action: str) -> str:
    """The port of an action; whoever runs the workflow binds it to where the output really is."""
    return f"action_{action}"


def _code(action: Action, sources: Sources) -> Code:
    match action.work:
        case CommandLine(command, files):
            return Command(command, made_of={"files": dict(_digests(files, sources))})
        case Script(script, arguments):
            return Command((SUBMIT, script, *arguments), made_of=_script(script, sources))
        case Query(query):
            return Sql(query)
        case Call(function):
            return Function(sources.find(function))


def _digests(files: tuple[str, ...], sources: Sources) -> Iterator[tuple[str, str]]:
    return ((file, hashlib.sha256(sources.read(file)).hexdigest()) for file in files)


def _script(path: str, sources: Sources) -> Mapping[str, Json | list[Any]]:
    found = walked_script(sources.read(path).decode(), path)
    return {"function": list(found.pieces), "unseen": list(found.unseen)}
