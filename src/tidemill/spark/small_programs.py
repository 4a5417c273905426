"""Programs for small changes.

A refresh that touches little is dominated by the fixed price of Spark's jobs. So a step of a small change is
collected to the driver and given back as a local relation: what follows knows its size, joins by broadcast, and is
optimised away where it is empty. What is only picked from it needs no job, and small outputs are written without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from tidemill.algebra.expression import column as value
from tidemill.algebra.fuse import Fused, Part
from tidemill.algebra.operators import (
    Group,
    Join,
    JoinKind,
    Named,
    Operator,
    Project,
    Ref,
    Scan,
    Union,
    children,
    rebuilt,
    select,
    walk,
)
from tidemill.algebra.simplify import simplified
from tidemill.model.schema import Schema
from tidemill.ports.engine import Target
from tidemill.spark.local import batches
from tidemill.spark.local.batches import Held
from tidemill.spark.local.operators import ByHand
from tidemill.spark.operators import Compiler, Sources, is_lookup
from tidemill.spark.session import tagged
from tidemill.spark.types import column, content_schema

T = TypeVar("T")

WORKERS = 4
"""Steps and outputs that go on side by side."""


class RunningSmall:
    """One run of a program on a small change: few steps, and the rows of all of them at hand.

    A step begins as soon as those that it reads are done: much of what it takes is waiting for Spark to plan.
    """

    def __init__(
        self,
        spark: SparkSession,
        channels: Sources,
        program: Fused,
        outputs: Mapping[str, Target],
        hand: batches.Hand,
        tag: str,
        *,
        in_one: bool = True,
    ) -> None:
        """`in_one`: the rows of a step are few enough for one task."""
        self._spark = spark
        self._program = program
        self._outputs = outputs
        self._tag = tag
        self._rows: dict[str, Held] = {}
        self._empty: set[str] = set()
        self._channels = channels
        self._hand = hand
        self._names: dict[Operator, str] = {}
        self._numbers = count()
        self._by_hand = ByHand(self._leaf)
        self._compiler = Compiler(
            spark, channels, _Steps(self._frame), in_one=in_one, collected=lambda op: self._computed(op).table
        )

    def run(self) -> Mapping[str, Schema]:
        try:
            with ThreadPoolExecutor(WORKERS) as pool:
                return self._run(pool)
        finally:
            self._compiler.close()
            self._hand.close()

    def _run(self, pool: ThreadPoolExecutor) -> Mapping[str, Schema]:
        """Whatever waits for something was submitted after it, so that the pool never waits for itself."""
        done: dict[str, Future[None]] = {}

        def after(needed: Iterable[str], work: Callable[[], T]) -> Future[T]:
            return pool.submit(self._after, [done[step] for step in needed], work)

        for name, op in self._program.steps.items():
            done[name] = after(self._needed(op), partial(self._step, name, op))
        written: dict[str, Future[Schema]] = {}
        for channel, pieces in self._program.outputs.items():
            parts = [p for p in pieces if isinstance(p, Part)]
            others = [p for p in pieces if not isinstance(p, Part)]
            rest = after((step for op in others for step in self._needed(op)), partial(self._rest, others))
            steps = [p.step for p in parts]
            written[channel] = after(steps, partial(self._write, channel, parts, rest))
        for step in done.values():
            step.result()
        return {channel: work.result() for channel, work in written.items()}

    def _after(self, needed: list[Future[None]], work: Callable[[], T]) -> T:
        for step in needed:
            step.result()
        with tagged(self._spark, self._tag):
            return work()

    def _needed(self, op: Operator) -> set[str]:
        """The steps that an operator reads."""
        refs = (o.step for o in walk(op) if isinstance(o, Ref))
        return {self._program.parts[r].step if r in self._program.parts else r for r in refs}

    def _step(self, name: str, op: Operator) -> None:
        rest = simplified(op, self._empty)
        if rest is not None:
            self._rows[name] = self._computed(rest)
            for part, definition in self._program.parts.items():
                if definition.step == name:
                    self._rows[part] = _part(self._rows[name], definition)
        names = (name, *(n for n, p in self._program.parts.items() if p.step == name))
        self._empty |= {n for n in names if n not in self._rows or not self._rows[n].table.num_rows}

    def _frame(self, name: str) -> DataFrame:
        """A step as Spark sees it. One that was left out as empty has its columns: an outer join may ask for them."""
        if name not in self._rows:
            part = self._program.parts.get(name)
            step = name if part is None else part.step
            nothing = self._compiler.frame(self._program.steps[step]).limit(0)
            self._rows[step] = Held.of(nothing)
            self._rows[name] = self._rows[step] if part is None else _part(self._rows[step], part)
        return self._hand.frame(self._rows[name])

    def _computed(self, op: Operator) -> Held:
        """The rows of an operator: by hand as far as that goes, and by Spark."""
        rows = self._by_hand(op)
        return rows if rows is not None else Held.of(self._compiler.frame(self._lowered(op)))

    def _lowered(self, op: Operator) -> Operator:
        """The operator over what was computed by hand, unless Spark had better read so much itself."""
        rows = self._by_hand(op)
        if rows is None or (rows.table.num_rows > batches.FEW and not any(map(self._is_work, walk(op)))):
            return rebuilt(op, self._lowered)
        name = self._names.setdefault(op, f"by hand {next(self._numbers)}")  # other steps name theirs meanwhile
        self._rows[name] = rows
        return Ref(name, op.columns)

    def _is_work(self, op: Operator) -> bool:
        """Were many rows grouped or joined for it?"""
        match op:
            case Group() | Join(kind=JoinKind.INNER | JoinKind.LEFT | JoinKind.RIGHT | JoinKind.FULL):
                below = [self._by_hand.known(child) for child in children(op)]
                return any(rows is not None and rows.table.num_rows > batches.FEW for rows in below)
        return False

    def _leaf(self, op: Operator) -> Held | None:
        """The rows of an operator that need not be computed: steps, small changes, and keys looked up in a content."""
        match op:
            case Ref() if op.step in self._rows:
                return self._rows[op.step].select(op.columns)
            case Scan():
                return self._channels.here(op)
            case Join(left=Scan() as scan) if is_lookup(op) and not self._channels.at_hand(scan):
                keys = select(op.right, list(dict.fromkeys(k for _, k in op.keys)))
                return self._channels.found(scan, self._computed(keys).table, op.keys)
        return None

    def _rest(self, pieces: list[Operator]) -> Held | None:
        """The rows of an output's pieces that are no parts of steps; None if there are none."""
        left = [s for p in pieces if (s := simplified(p, self._empty)) is not None]
        return self._computed(left[0] if len(left) == 1 else Union(tuple(left))) if left else None

    def _write(self, channel: str, parts: list[Part], rest: Future[Held | None]) -> Schema:
        rows = [_part(self._rows[p.step], p) for p in parts if p.step not in self._empty]
        if (others := rest.result()) is not None:
            rows.append(others)
        target = self._outputs[channel]
        content = target.schema or self._content(channel)
        if not rows:
            return content
        wanted = batches.schema_of(str(target.physical(content)))
        table = pa.concat_tables([self._shaped(r, wanted) for r in rows])
        batches.write(table.columns, wanted, target)
        return content

    def _content(self, channel: str) -> Schema:
        """The schema of what was never written before. Its pieces may differ in their types."""
        pieces = [_picked(p) if isinstance(p, Part) else p for p in self._program.outputs[channel]]
        whole = pieces[0] if len(pieces) == 1 else Union(tuple(pieces))
        rows = self._by_hand(whole)
        return content_schema(rows.struct if rows is not None else self._compiler.frame(self._lowered(whole)).schema)

    def _shaped(self, rows: Held, wanted: StructType) -> pa.Table:
        """The rows in exactly these columns; Spark casts what is of another type."""
        arrow = batches.arrow_schema(wanted)
        found = [rows.table.column(name) for name in wanted.names]
        if not all(c.type == f.type or pa.types.is_null(c.type) for c, f in zip(found, arrow, strict=True)):
            casts = (column(f.name).cast(f.dataType).alias(f.name) for f in wanted.fields)
            found = rows.frame(self._spark).select(*casts).toArrow().columns
        return pa.table([c.cast(f.type) for c, f in zip(found, arrow, strict=True)], schema=arrow)


def _picked(part: Part) -> Operator:
    """The columns of a part, of all the step's rows."""
    items = tuple(Named(name, value(origin)) for name, origin in part.columns.items())
    return Project(Ref(part.step, tuple(dict.fromkeys(part.columns.values()))), items)


def _part(held: Held, part: Part) -> Held:
    rows = held.table
    for keep in part.keep:
        rows = rows.filter(rows.column(keep))
    names = part.columns.items()
    table = pa.table({name: rows.column(origin) for name, origin in names})
    return Held(table, StructType([StructField(name, held.struct[origin].dataType) for name, origin in names]))


class _Steps(dict[str, DataFrame]):
    """Steps as frames, each made when it is first asked for."""

    def __init__(self, make: Callable[[str], DataFrame]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> DataFrame:
        self[name] = self._make(name)
        return self[name]
