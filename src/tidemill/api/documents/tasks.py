"""Actions as tasks: from here on they are like any other, in how they run and in how they are recognised."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from os.path import normpath
from typing import Any

from tidemill.api.documents.parser import load, parsed, problems_in, readable_actions
from tidemill.errors import WorkflowError
from tidemill.model.action import Action, Call, CommandLine, OneShot, Query, Script
from tidemill.model.block import Kind
from tidemill.model.code import Json, walked_script
from tidemill.model.query import can_rename_table, rename_tables
from tidemill.model.task import Code, Command, Function, Mode, Read, Retry, Sql, Task, Variant, Write
from tidemill.retention.memo import Node

OUTPUT = "output"
SUBMIT = "spark-submit"
_POSITION = "input_"
KINDS = {CommandLine: "command-line", Script: "pyspark-script", Query: "spark-sql", Call: "python-function"}
"""What the types of actions are called in JSON."""


@dataclass(frozen=True, slots=True)
class Sources:
    """How to get at what actions name: the bytes of a file by its path, a function by `module:name`.

    Both raise `WorkflowError` if there is no such thing. `resolve` gives the one name of a directory that has several.
    """

    read: Callable[[str], bytes]
    find: Callable[[str], Callable[..., Any]]
    resolve: Callable[[str], str] = normpath


def checked(text: str, sources: Sources) -> OneShot:
    """The workflow that a JSON text describes.

    Raises `WorkflowError` with every problem, of the document and of what it names.
    """
    data = load(text)
    problems = [str(p) for p in problems_in(data, sources.resolve)]
    for pointer, action in readable_actions(data):
        try:
            task_of(action, sources)
        except WorkflowError as error:
            problems += [f"{pointer}: {problem}" for problem in error.problems]
    if problems:
        raise WorkflowError(problems)
    return parsed(text)


def nodes_of(workflow: OneShot, sources: Sources) -> list[Node]:
    """The actions of a checked workflow as nodes that the memo can name, parents before their children."""
    return [
        Node(a.id, canonical(task_of(a, sources)), tuple(p.id for p in a.parents), a.force, OUTPUT)
        for a in workflow.in_order()
    ]


def canonical(task: Task) -> Task:
    """The task by which its results are known: names of inputs are replaced by positions.

    A function is called with its inputs by name, and a query may use a name for other things as well: such names stay.
    """
    renamed, code = {r.argument: f"{_POSITION}{n}" for n, r in enumerate(task.reads)}, task.variant.code
    if _POSITION in f"{code.described()} {[*renamed]}":  # the position of one might be taken for the name of another
        return task
    match code:
        case Command():
            argv = code.arguments({name: f"{{{position}}}" for name, position in renamed.items()})
            code = replace(code, argv=tuple(argv))
        case Sql(query):
            renamed = {name: position for name, position in renamed.items() if can_rename_table(query, name)}
            code = Sql(rename_tables(query, renamed))
        case _:
            return task
    reads = tuple(replace(r, argument=renamed.get(r.argument, r.argument)) for r in task.reads)
    return replace(task, variants=(replace(task.variant, reads=reads, code=code),))


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
