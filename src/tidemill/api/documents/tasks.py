"""Converts actions to tasks, which are executed and identified like any other task."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.util import decode_source
from os.path import normpath
from typing import Any

from tidemill.api.documents.parser import find_problems, find_valid_work, parse_json, parse_workflow
from tidemill.errors import WorkflowError
from tidemill.model import task as model
from tidemill.model.action import Action, CommandLine, FunctionCall, OneShotWorkflow, Query, Script, Work
from tidemill.model.block import BlockKind
from tidemill.model.code import trace_script
from tidemill.model.query import can_rename_table, rename_tables
from tidemill.model.task import Code, Command, Function, ReadMode, Sql, Task
from tidemill.retention.memo import MemoNode

OUTPUT = "output"
SUBMIT = "spark-submit"
_POSITION = "input_"
KINDS = {CommandLine: "command-line", Script: "pyspark-script", Query: "spark-sql", FunctionCall: "python-function"}
"""Names of the action types in JSON."""


@dataclass(frozen=True, slots=True)
class SourceResolver:
    """Resolves the names in actions: the bytes of a file by its path, a function by `module:name`.

    Both raise `WorkflowError` if the name does not exist. `resolve` returns the canonical name of a directory.
    """

    read_file: Callable[[str], bytes]
    find_function: Callable[[str], Callable[..., Any]]
    resolve: Callable[[str], str] = normpath


def validate_workflow(text: str, sources: SourceResolver, taken: Iterable[tuple[str, str]] = ()) -> OneShotWorkflow:
    """Parse and validate the workflow of a JSON text. `taken` are other workflows and the paths of their outputs.

    Raises `WorkflowError` with every problem of the document and of the files and functions that it names.
    """
    data = parse_json(text)
    problems = [str(p) for p in find_problems(data, sources.resolve, taken)]
    for pointer, work in find_valid_work(data):
        try:
            _build_code(work, sources)
        except WorkflowError as error:
            problems += [f"{pointer}: {problem}" for problem in error.problems]
    if problems:
        raise WorkflowError(problems)
    return parse_workflow(text)


def build_nodes(workflow: OneShotWorkflow, sources: SourceResolver) -> list[MemoNode]:
    """Return the actions of a validated workflow as nodes for memoization, parents before their children."""
    return [
        MemoNode(a.id, to_canonical_task(build_task(a, sources)), tuple(p.id for p in a.parents), a.force, OUTPUT)
        for a in workflow.sort_actions()
    ]


def to_canonical_task(task: Task) -> Task:
    """Return the task that identifies its results: names of inputs are replaced by positions.

    A function gets its inputs by name, and a query may use a name for other purposes as well: such names are kept.
    """
    renamed, code = {r.argument: f"{_POSITION}{n}" for n, r in enumerate(task.reads)}, task.variant.code
    if _POSITION in f"{code.describe_code()} {[*renamed]}":  # a position could be confused with a name
        return task
    match code:
        case Command():
            argv = code.format_arguments({name: f"{{{position}}}" for name, position in renamed.items()})
            code = replace(code, argv=tuple(argv))
        case Sql(query):
            renamed = {name: position for name, position in renamed.items() if can_rename_table(query, name)}
            code = Sql(rename_tables(query, renamed))
        case _:
            return task
    reads = tuple(replace(r, argument=renamed.get(r.argument, r.argument)) for r in task.reads)
    return replace(task, variants=(replace(task.variant, reads=reads, code=code),))


def build_task(action: Action, sources: SourceResolver) -> Task:
    reads = tuple(model.TaskInput(p.name, format_channel_name(p.id), ReadMode.ALL) for p in action.parents)
    writes = (model.TaskOutput(OUTPUT, format_channel_name(action.id), BlockKind.BASE),)
    return Task(
        name=action.name,
        variants=(model.Variant("one-shot", reads, writes, _build_code(action.work, sources)),),
        parameters=action.parameters,
        retry=model.RetryPolicy(action.attempts),
        version=action.version,
        environment=action.environment,
        deterministic=action.deterministic,
    )


def format_channel_name(action: str) -> str:
    """Return the port of an action; the executor binds it to the actual location of the output."""
    return f"action_{action}"


def _build_code(work: Work, sources: SourceResolver) -> Code:
    match work:
        case CommandLine(command, files):
            return Command(command, fingerprint={"files": _compute_digests(files, sources)})
        case Script(script, arguments):
            traced = trace_script(_read_script(script, sources), script)
            fingerprint = {"function": list(traced.pieces), "unseen": list(traced.unseen)}
            return Command((SUBMIT, script, *arguments), fingerprint=fingerprint)
        case Query(query):
            return Sql(query)
        case FunctionCall(function):
            return Function(sources.find_function(function))


def _compute_digests(files: Iterable[str], sources: SourceResolver) -> dict[str, str]:
    digests, problems = dict[str, str](), list[str]()
    for file in files:
        try:
            digests[file] = hashlib.sha256(sources.read_file(file)).hexdigest()
        except WorkflowError as error:
            problems += error.problems
    if problems:
        raise WorkflowError(problems)
    return digests


def _read_script(script: str, sources: SourceResolver) -> str:
    try:
        return decode_source(sources.read_file(script))
    except (UnicodeDecodeError, SyntaxError) as error:
        problem = f"{script} is not text in UTF-8, nor in an encoding that it declares; save it as UTF-8"
        raise WorkflowError([problem]) from error
