"""Tasks: steps from channels to channels, and their executable variants."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidemill.errors import WorkflowError
from tidemill.model.block import BlockKind
from tidemill.model.canonical_json import NotSerializable, to_canonical_json
from tidemill.model.change import Updates
from tidemill.model.code import Json, trace_code
from tidemill.model.identity import Identity, compute_identity
from tidemill.model.location import UNKNOWN_LOCATION, SourceLocation
from tidemill.model.query import is_nondeterministic, normalise_query
from tidemill.model.resource_limits import NO_LIMITS, ResourceLimits
from tidemill.model.schema import Schema
from tidemill.model.stateful import Stateful


class ReadMode(StrEnum):
    """The part of an input that a task reads."""

    ALL = "all"  # the full content
    NEW = "new"  # the changes since the task's last successful run
    OLD = "old"  # the full content as of that run; only together with a NEW of the same channel


@dataclass(frozen=True, slots=True)
class TaskInput:
    """One input of a task."""

    argument: str  # its name in the code
    port: str  # a channel, once bound
    mode: ReadMode
    advance: bool = False  # the task's next run continues from here, although this one reads the full content
    from_start: bool = False  # the task reads as if it had never run


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """One output of a task."""

    argument: str  # its name in the code
    port: str  # a channel, once bound
    kind: BlockKind
    updates: Updates | None = None  # the encoding of a delta, if it is not that of the channel
    void: bool = False  # nothing is written, and the previous content becomes invalid
    merges_into_empty: bool = False  # the code returns a delta, which is written as a base of its rows alone
    watermark_column: str | None = None  # its column whose largest value is the watermark of all outputs of the task


@dataclass(frozen=True, slots=True)
class Function:
    """A PySpark function from DataFrames to a DataFrame, or to a dict of them by output name."""

    call: Callable[..., Any]

    def describe_code(self) -> Json:
        return trace_code(self.call).to_json()


@dataclass(frozen=True, slots=True)
class Sql:
    """A Spark SQL query whose tables are the task's inputs."""

    query: str

    def describe_code(self) -> Json:
        return {"sql": normalise_query(self.query)}

    def list_column_names(self) -> list[str]:
        """The names of the result's columns; `*` for names that cannot be derived from the text.

        >>> Sql("SELECT a, count(*) AS n FROM t GROUP BY a").list_column_names()
        ['a', 'n']
        """
        try:
            tree = sqlglot.parse_one(self.query, dialect="spark")
        except SqlglotError:
            return ["*"]
        return [name or "*" for name in tree.named_selects] if isinstance(tree, exp.Query) else ["*"]


@dataclass(frozen=True, slots=True)
class Command:
    """A program. `{name}` in an argument is replaced by the directory of that input or output.

    Inputs are directories of Parquet files; the program writes Parquet, CSV or JSON-lines files to each output
    directory. Its environment consists of PATH, HOME, LANG and `env`. Its limits are not part of its identity.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    fingerprint: Mapping[str, Any] = field(default_factory=dict)  # facts that identify the program, besides its name
    limits: ResourceLimits = NO_LIMITS

    def describe_code(self) -> Json:
        return {"command": list(self.argv), "env": dict(self.env), **self.fingerprint}

    def format_arguments(self, paths: Mapping[str, str]) -> list[str]:
        """The arguments with each known `{name}` replaced by its path; other braces are left unchanged.

        >>> Command(("cp", "{words}/x", "{'a': 1}")).format_arguments({"words": "/tmp/w"})
        ['cp', '/tmp/w/x', "{'a': 1}"]
        """
        return [_PLACEHOLDER.sub(lambda m: paths.get(m[1], m[0]), argument) for argument in self.argv]

    def find_unknown_arguments(self, names: Collection[str]) -> list[str]:
        """Arguments that consist of one placeholder that names neither an input nor an output."""
        return [a for a in self.argv if (m := _PLACEHOLDER.fullmatch(a)) is not None and m[1] not in names]


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query as the user wrote it. It is run unchanged."""

    query: str
    tables: Mapping[str, str]  # channels by the names of the tables in the query

    def describe_query(self) -> Json:
        return {"sql": normalise_query(self.query), "tables": dict(self.tables)}


@dataclass(frozen=True, slots=True)
class Refresh:
    """The code of one refresh mode of a declared table. `query` is opaque here: the algebra and the engine use it.

    Before the columns of all channels are known, `query` is the declared relation and the description is empty.
    """

    query: Any
    table: str  # the argument under which the result is written
    mode: str
    description: str  # of the operators, one a line
    schema: Schema | None = field(default=None, compare=False)  # of the result, as declared
    query_text: QueryText | None = None  # the query that computes the full result, if a query declares the table
    types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of the columns that it reads, by channel

    def describe_code(self) -> Json:
        result = None if self.schema is None else str(self.schema)
        types = {channel: dict(columns) for channel, columns in self.types.items()}
        text = {} if self.query_text is None else self.query_text.describe_query()
        return {"refresh": self.mode, "operators": self.description, "types": types, "result": result, **text}

    def list_column_names(self) -> list[str]:
        """The names of the result's columns."""
        return list(self.query.root.columns)


_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.]*)\}")

Code = Function | Sql | Command | Refresh | Stateful


@dataclass(frozen=True, slots=True)
class Variant:
    """One executable form of a task. A programmed task has exactly one."""

    name: str
    reads: tuple[TaskInput, ...]
    writes: tuple[TaskOutput, ...]
    code: Code

    def rebind_ports(self, channels: Mapping[str, str]) -> Variant:
        return replace(
            self,
            reads=tuple(replace(r, port=channels.get(r.port, r.port)) for r in self.reads),
            writes=tuple(replace(w, port=channels.get(w.port, w.port)) for w in self.writes),
        )


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts, and the wait after a failure: `backoff`, doubled each time, up to `max_backoff`."""

    attempts: int = 1
    backoff: float = 1.0  # seconds
    max_backoff: float = 300.0

    def compute_backoff(self, failed_attempts: int) -> float:
        """Seconds to wait after this number of failed attempts.

        >>> [RetryPolicy(5, 2.0, max_backoff=10.0).compute_backoff(n) for n in (1, 2, 3, 4)]
        [2.0, 4.0, 8.0, 10.0]
        """
        return float(min(self.max_backoff, self.backoff * 2 ** (failed_attempts - 1)))


@dataclass(frozen=True, slots=True)
class Task:
    """A step from channels to channels. All variants read and write the same ports."""

    name: str
    variants: tuple[Variant, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    retry: RetryPolicy = RetryPolicy()
    time_limit: float | None = None  # seconds
    location: SourceLocation = UNKNOWN_LOCATION
    refresh: str | None = None  # of a declared table: the refresh mode that the user chose; None: a programmed task
    batch_reason: str | None = None  # of a declared table: the reason why only batch refresh is possible
    version: str | None = None  # set by the user, to mark a change that the code does not show
    environment: tuple[str, ...] = ()  # names of environment variables that its result depends on
    deterministic: bool | None = None  # whether equal inputs give equal results; None: derived from its code
    fixed_identity: Identity | None = field(default=None, compare=False)  # computed when its code was loaded

    @property
    def variant(self) -> Variant:
        """The only variant of a programmed task; for a declared table the variant that needs no previous state."""
        return self.variants[0]

    def select_variant(self, variant: str) -> Task:
        """The task with this variant alone."""
        return replace(self, variants=tuple(v for v in self.variants if v.name == variant))

    def to_first_run(self) -> Task:
        """The programmed task as if it had never run: all input is new, and its output replaces the current content."""
        reads = (replace(r, from_start=r.mode is not ReadMode.ALL or r.port in self.state_ports) for r in self.reads)
        writes = (replace(w, kind=BlockKind.BASE, merges_into_empty=w.kind is BlockKind.DELTA) for w in self.writes)
        return replace(self, variants=(replace(self.variant, reads=tuple(reads), writes=tuple(writes)),))

    @property
    def reads(self) -> tuple[TaskInput, ...]:
        return self.variant.reads

    @property
    def writes(self) -> tuple[TaskOutput, ...]:
        return self.variant.writes

    @property
    def watermark_output(self) -> TaskOutput | None:
        """The output that carries the watermark of event time; None if the task's outputs have none."""
        return next((w for w in self.writes if w.watermark_column is not None), None)

    @property
    def state_ports(self) -> frozenset[str]:
        """The ports of the task's state: those that it both reads and writes."""
        return frozenset({r.port for r in self.reads} & {w.port for w in self.writes})

    def describe_task(self) -> Json:
        """The full description of the task: equal descriptions mean equal results for equal inputs."""
        return {
            "code": [v.code.describe_code() for v in self.variants],
            "reads": [[[r.argument, r.mode] for r in v.reads] for v in self.variants],
            "writes": [[[w.argument, w.kind] for w in v.writes] for v in self.variants],
            "parameters": self._encode_parameters(),
            "version": self.version,
            "environment": list(self.environment),
        }

    def _encode_parameters(self) -> Any:
        try:
            return to_canonical_json(dict(self.parameters))
        except NotSerializable as error:
            raise WorkflowError([f"{self.location}: parameters of task {self.name!r}: {error}"]) from error

    def compute_identity(self) -> Identity:
        """The identity of the task with all its variants, also after `select_variant`."""
        return self.fixed_identity or compute_identity("task", self.describe_task())

    def fix_identity(self) -> Task:
        """The task with its current identity fixed, so that later changes of global values do not affect it."""
        return replace(self, fixed_identity=self.compute_identity())

    @property
    def is_repeatable(self) -> bool:
        """Whether a result may be reused for another run. Not if code is unreadable, unless the task has a version."""
        if self.deterministic is not None:
            return self.deterministic
        codes = [v.code for v in self.variants]
        if any(isinstance(c, Sql) and is_nondeterministic(c.query) for c in codes):
            return False
        return self.version is not None or not any(c.describe_code().get("unseen") for c in codes)

    def rebind_ports(self, name: str, channels: Mapping[str, str]) -> Task:
        """The same task under another name, its ports attached to channels."""
        return replace(self, name=name, variants=tuple(v.rebind_ports(channels) for v in self.variants))
