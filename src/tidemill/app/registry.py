"""Workflows as documents, submitted over the API or from a JSON file instead of Python files.

A user who may register one need not be trusted with the machine. So a document can contain only SQL, and only a SELECT
over the channels that the same document declares: no files, no paths, no other catalogs, no programs.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import sqlglot
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidemill.algebra.sql.tables import find_table_names
from tidemill.api.workflow import Workflow
from tidemill.errors import BadInput, WorkflowError
from tidemill.model import workflow as model
from tidemill.model.analysis import NO_KNOWLEDGE, SchemaKnowledge
from tidemill.model.query import find_excess
from tidemill.model.renamed import find_renamed_key
from tidemill.model.trigger import from_json

MAX_QUERY_LENGTH = 100_000
"""The greatest length of a query in characters."""

_RENAMED = {"tables.*.together": "refresh_group"}
_Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]

FORBIDDEN_FUNCTIONS = frozenset(
    {
        *("reflect", "java_method", "try_reflect"),  # call into the server
        *("read_files", "read_kafka", "input_file_name", "input_file_block_start", "input_file_block_length"),
        *("identifier", "version", "current_user", "session_user", "user"),  # hide a name, or expose the server
    }
)
"""Functions that no query of a document may call."""


_Lag = Annotated[float, Field(ge=0, le=10**9)] | Annotated[str, Field(max_length=100)]
"""Seconds, or a duration such as '1 day'."""


class _DefinitionPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataTriggerDefinition(_DefinitionPart):
    kind: Literal["data"]
    channel: _Name
    rows: int | None = Field(default=None, gt=0, le=10**15)
    bytes: int | None = Field(default=None, gt=0, le=10**15)
    age: float | None = Field(default=None, gt=0, le=10**9)


class EveryTriggerDefinition(_DefinitionPart):
    kind: Literal["every"]
    seconds: float = Field(gt=0, le=10**9)


class CronTriggerDefinition(_DefinitionPart):
    kind: Literal["cron"]
    expression: str = Field(max_length=200)
    zone: str = Field(default="UTC", max_length=100)


class AfterTriggerDefinition(_DefinitionPart):
    kind: Literal["after"]
    flow: _Name
    reached: Literal["launched", "completed", "failed"] = "completed"


SingleTrigger = DataTriggerDefinition | EveryTriggerDefinition | CronTriggerDefinition | AfterTriggerDefinition


class AllTriggerDefinition(_DefinitionPart):
    kind: Literal["all"]
    parts: tuple[SingleTrigger, ...] = Field(min_length=1, max_length=20)


AnyTrigger = Annotated[SingleTrigger | AllTriggerDefinition, Field(discriminator="kind")]


class InputDefinition(_DefinitionPart):
    """An input channel: with a key it takes upserts, else appends."""

    name: _Name
    columns: str = Field(max_length=20_000, description="As in SQL: 'id bigint, city string'")
    key: tuple[str, ...] = ()


class TableDefinition(_DefinitionPart):
    """A table defined by a query over the document's other channels, and refreshed automatically."""

    name: _Name
    query: str = Field(max_length=MAX_QUERY_LENGTH)
    refresh: Literal["auto", "batch", "incremental", "incremental_strict"] = "auto"
    triggers: tuple[AnyTrigger, ...] = Field(default=(), max_length=20)
    priority: float = Field(default=1.0, gt=0, le=10**9, description="Weight of its staleness")
    refresh_group: _Name | None = Field(
        default=None, description="Name of its refresh group: one run refreshes all tables of a group"
    )
    target_lag: _Lag | dict[str, _Lag] | None = Field(
        default=None, description="'1 day'; or by input channel, or by a route 'input > table'"
    )
    consistency: _Lag | None = Field(default=None, description="'strict', or the greatest inconsistency: '7 days'")


class WorkflowDefinition(_DefinitionPart):
    """A workflow of SQL tables."""

    name: _Name
    inputs: tuple[InputDefinition, ...] = Field(default=(), max_length=1000)
    tables: tuple[TableDefinition, ...] = Field(default=(), max_length=1000)


def parse_definition(data: Any) -> WorkflowDefinition:
    if isinstance(data, Mapping) and (problem := find_renamed_key(data, _RENAMED)) is not None:
        raise BadInput(problem)
    try:
        return WorkflowDefinition.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"])) or "the document"
        raise BadInput(f"{location}: {first['msg']}") from error


def build_workflow(document: WorkflowDefinition, knowledge: SchemaKnowledge = NO_KNOWLEDGE) -> model.WorkflowSpec:
    """The workflow that a document declares; raises `WorkflowError` with every problem."""
    names = {i.name for i in document.inputs} | {t.name for t in document.tables}
    problems = [f"table {t.name!r}: {problem}" for t in document.tables for problem in find_violations(t.query, names)]
    if problems:
        raise WorkflowError(problems)
    workflow = Workflow(document.name)
    for channel in document.inputs:
        workflow.input(channel.name, channel.columns, key=channel.key or None)
    for table in document.tables:
        workflow.sql(
            table.name,
            table.query,
            refresh=table.refresh,
            triggers=[from_json(t.model_dump(exclude_none=True)) for t in table.triggers],
            target_lag=table.target_lag,
            consistency=table.consistency,
            priority=table.priority,
            refresh_group=table.refresh_group,
        )
    return workflow.build_spec(knowledge)


def find_violations(query: str, channels: set[str]) -> Iterator[str]:
    """The constructs of a query that a document may not use."""
    if "${" in query:
        yield "variables such as ${…} are not allowed"
        return
    if (excess := find_excess(query)) is not None:
        yield excess
        return
    try:
        statements = sqlglot.parse(query, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        yield f"not Spark SQL: {str(error).splitlines()[0][:200] if str(error) else type(error).__name__}"
        return
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        yield "expected one SELECT"
        return
    yield from _find_unsafe_tables(query, statements[0], channels)
    yield from _find_unsafe_calls(statements[0])


def _find_unsafe_tables(query: str, tree: exp.Query, channels: set[str]) -> Iterator[str]:
    for table in (t for t in tree.find_all(exp.Table) if not t.find_ancestor(exp.Hint)):
        if not isinstance(table.this, exp.Identifier):
            yield f"a table function is not allowed: {table.sql(dialect='spark')[:100]}"
        elif table.args.get("db") or table.args.get("catalog"):
            yield f"only channels of the same workflow can be read, not {table.sql(dialect='spark')[:100]}"
    names = find_table_names(query).names
    if not names:
        yield "it reads no channel, so it would never be refreshed"
    known = {c.lower() for c in channels}
    for name in (n for n in names if "." not in n and n.lower() not in known):
        shown = ", ".join(sorted(channels)) or "none"
        yield f"there is no channel {name!r} in the document; its channels are {shown}"


def _find_unsafe_calls(tree: exp.Query) -> Iterator[str]:
    for node in tree.walk():
        if isinstance(node, exp.QueryTransform | exp.Command | exp.Into):
            yield f"{type(node).__name__} is not allowed"
        if isinstance(node, exp.Func):
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
            if name.lower() in FORBIDDEN_FUNCTIONS:
                yield f"the function {name} is not allowed"
