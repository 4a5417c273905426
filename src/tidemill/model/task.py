"""Tasks: steps from channels to channels, and the variants in which they can be run."""

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
from tidemill.model.location import UNKNOWN, SourceLocation
from tidemill.model.query import is_nondeterministic, normalise_query
from tidemill.model.schema import Schema
from tidemill.model.stateful import Stateful


class ReadMode(StrEnum):
    """What a task is fed from an input."""

    ALL = "all"  # the whole content
    NEW = "new"  # what changed since the task's last successful run
    OLD = "old"  # the whole content as of that run; only beside a NEW of the same channel


@dataclass(frozen=True, slots=True)
class TaskInput:
    """One input: the name under which the code sees it, the port (a channel, once bound), and the mode.

    `advance`: the task's next run goes on from here, although this one reads the whole content. `afresh`: what is read
    is what the task would be fed if it had never run.
    """

    argument: str
    port: str
    mode: ReadMode
    advance: bool = False
    afresh: bool = False


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """One output: the name under which the code returns it, the port (a channel, once bound), and the kind.

    `updates` says how a delta is encoded, if not as the channel gives its changes to readers.
    """

    argument: str
    port: str
    kind: BlockKind
    updates: Updates | None = None
    void: bool = False  # nothing is written, and what was there counts no more
    merged: bool = False  # the code gives a delta, and what is written is what it makes of nothing
    edge: str | None = None  # its column whose largest value is the trailing edge of all that the task writes


@dataclass(frozen=True, slots=True)
class Function:
    """A PySpark function from DataFrames to a DataFrame, or to a dict of them by output name."""

    call: Callable[..., Any]

    def describe_code(self) -> Json:
        found = trace_code(self.call)
        return {"function": list(found.pieces), "unseen": list(found.unseen)}


@dataclass(frozen=True, slots=True)
class Sql:
    """A Spark SQL query whose tables are the task's inputs."""

    query: str

    def describe_code(self) -> Json:
        return {"sql": normalise_query(self.query)}

    def list_column_names(self) -> list[str]:
        """The names of the result's columns; `*` stands for names that cannot be told from the text.

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
    """A program. `{name}` in an argument stands for the directory of that input or output.

    Inputs are directories of Parquet files; the program leaves Parquet, CSV or JSON-lines files in each
    output directory. It sees PATH, HOME, LANG and what `env` gives, nothing else of the environment.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    made_of: Mapping[str, Any] = field(default_factory=dict)  # what is known of the program, besides its name

    def describe_code(self) -> Json:
        return {"command": list(self.argv), "env": dict(self.env), **self.made_of}

    def format_arguments(self, paths: Mapping[str, str]) -> list[str]:
        """The arguments with each `{name}` that is known replaced by its path; other braces stand for themselves.

        >>> Command(("cp", "{words}/x", "{'a': 1}")).format_arguments({"words": "/tmp/w"})
        ['cp', '/tmp/w/x', "{'a': 1}"]
        """
        return [_PLACEHOLDER.sub(lambda m: paths.get(m[1], m[0]), argument) for argument in self.argv]

    def find_unknown_arguments(self, names: Collection[str]) -> list[str]:
        """Arguments that are a placeholder and nothing else, but name neither an input nor an output."""
        return [a for a in self.argv if (m := _PLACEHOLDER.fullmatch(a)) is not None and m[1] not in names]


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query as its user wrote it. It is run as it stands; nothing in it is replaced."""

    query: str
    tables: Mapping[str, str]  # by the name of a table in the query, the channel that it means

    def describe_query(self) -> Json:
        return {"sql": normalise_query(self.query), "tables": dict(self.tables)}


@dataclass(frozen=True, slots=True)
class Refresh:
    """A way to keep a declared table fresh. What `query` is only the algebra and the engine know.

    Before the columns of all channels are known it is a relation as declared, and the description empty.
    """

    query: Any
    table: str  # the argument under which the result is written
    way: str
    description: str  # of the operators, one a line
    schema: Schema | None = field(default=None, compare=False)  # of the result, as declared
    text: QueryText | None = None  # what computes the whole result, if a query declares the table
    types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of the columns that it reads, by channel

    def describe_code(self) -> Json:
        result = None if self.schema is None else str(self.schema)
        types = {channel: dict(columns) for channel, columns in self.types.items()}
        text = {} if self.text is None else self.text.describe_query()
        return {"refresh": self.way, "operators": self.description, "types": types, "result": result, **text}

    def list_column_names(self) -> list[str]:
        """The names of the result's columns."""
        return list(self.query.root.columns)


_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.]*)\}")

Code = Function | Sql | Command | Refresh | Stateful


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a task. A programmed task has exactly one."""

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
    """How often to try again after a failure, and how long to wait: `backoff`, doubled each time."""

    attempts: int = 1
    backoff: float = 1.0  # seconds
    longest: float = 300.0

    def compute_backoff(self, failed_attempts: int) -> float:
        """Seconds to wait after so many failures.

        >>> [RetryPolicy(5, 2.0, longest=10.0).compute_backoff(n) for n in (1, 2, 3, 4)]
        [2.0, 4.0, 8.0, 10.0]
        """
        return float(min(self.longest, self.backoff * 2 ** (failed_attempts - 1)))


@dataclass(frozen=True, slots=True)
class Task:
    """A step from channels to channels. All variants read and write the same ports."""

    name: str
    variants: tuple[Variant, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    retry: RetryPolicy = RetryPolicy()
    time_limit: float | None = None  # seconds
    location: SourceLocation = UNKNOWN
    refresh: str | None = None  # of a declared table: the way that its user chose; None: runs as it stands
    batch_because: str | None = None  # of a declared table: why it can only be run in batch
    version: str | None = None  # that the user gives it, to say that something has changed which its code does not show
    environment: tuple[str, ...] = ()  # names of environment variables that its result depends on
    deterministic: bool | None = None  # does the same input give the same result? None: as its code says
    fixed_identity: Identity | None = field(default=None, compare=False)  # since its code was loaded

    @property
    def variant(self) -> Variant:
        """The only variant of a programmed task; of a declared table the one that needs nothing from before."""
        return self.variants[0]

    def select_variant(self, variant: str) -> Task:
        """The task with this variant alone."""
        return replace(self, variants=tuple(v for v in self.variants if v.name == variant))

    def to_first_run(self) -> Task:
        """The programmed task as if it had never run: all there is is new, and what it writes replaces what was there.

        A task that reads whole contents and writes bases does so anyway.
        """
        reads = (replace(r, afresh=r.mode is not ReadMode.ALL or r.port in self.state_ports) for r in self.reads)
        writes = (replace(w, kind=BlockKind.BASE, merged=w.kind is BlockKind.DELTA) for w in self.writes)
        return replace(self, variants=(replace(self.variant, reads=tuple(reads), writes=tuple(writes)),))

    @property
    def reads(self) -> tuple[TaskInput, ...]:
        return self.variant.reads

    @property
    def writes(self) -> tuple[TaskOutput, ...]:
        return self.variant.writes

    @property
    def watermark_output(self) -> TaskOutput | None:
        """The output that says how far event time is settled; None if what the task writes has none."""
        return next((w for w in self.writes if w.edge is not None), None)

    @property
    def state_ports(self) -> frozenset[str]:
        """The task's state: what it both reads and writes."""
        return frozenset({r.port for r in self.reads} & {w.port for w in self.writes})

    def describe_task(self) -> Json:
        """What the task does, in full: equal descriptions mean equal results for equal inputs."""
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
        """Of the task with all its variants, also if one was chosen since."""
        return self.fixed_identity or compute_identity("task", self.describe_task())

    def fix_identity(self) -> Task:
        """The task under the identity that it has now, whatever its code does to the values of globals later."""
        return replace(self, fixed_identity=self.compute_identity())

    @property
    def is_repeatable(self) -> bool:
        """May a result be taken for that of another run? Not if code cannot be looked into, unless it has a version."""
        if self.deterministic is not None:
            return self.deterministic
        codes = [v.code for v in self.variants]
        if any(isinstance(c, Sql) and is_nondeterministic(c.query) for c in codes):
            return False
        return self.version is not None or not any(c.describe_code().get("unseen") for c in codes)

    def rebind_ports(self, name: str, channels: Mapping[str, str]) -> Task:
        """The same task under another name, its ports attached to channels."""
        return replace(self, name=name, variants=tuple(v.rebind_ports(channels) for v in self.variants))
