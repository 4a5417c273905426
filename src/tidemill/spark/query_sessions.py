"""Queries as their users wrote them, run by Spark in sessions where the tables have the users' names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.eliminate_ctes import eliminate_ctes

from tidemill.algebra.dialect import parse, text_of
from tidemill.model.block import Block
from tidemill.model.schema import Schema
from tidemill.model.view import View, blocks_of
from tidemill.ports.engine import Target
from tidemill.spark.block_writer import save
from tidemill.spark.local import batches
from tidemill.spark.session import QUICK, beside, isolated, tagged_apart
from tidemill.spark.session_loss import SessionLife
from tidemill.spark.types import column, content_schema, is_plain_type, quoted
from tidemill.spark.view_reader import Locate, Reader

FEW = 8_000
"""Rows of tables up to which one task computes a query: what is made of them may be many more."""


class QuerySessions:
    """Sessions for users' queries. Each serves one query at a time, whose tables are temporary views of it.

    A name means other rows in each session, so that runs beside each other do not meet.
    """

    def __init__(self, make: Callable[[], SparkSession]) -> None:
        self._make = make
        self._idle: list[SparkSession] = []
        self._lock = threading.Lock()
        self.sessions: list[SparkSession] = []

    @contextmanager
    def acquire(self) -> Iterator[SparkSession]:
        with self._lock:
            session = self._idle.pop() if self._idle else None
        if session is None:
            session = self._make()
            self.sessions.append(session)
        try:
            yield session
        finally:
            with self._lock:
                self._idle.append(session)


class EngineSessions:
    """The sessions of an engine, all with the same settings beside those of their purpose."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str] | None = None) -> None:
        self._first = spark
        self.life = SessionLife(spark)
        self._settings = dict(settings or {})
        self._quick: SparkSession | None = None
        self.spark = beside(spark, self._settings) if self._settings else spark
        self.queries = QuerySessions(lambda: isolated(spark, self._settings))
        self.small_queries = QuerySessions(lambda: isolated(spark, {**QUICK, **self._settings}))

    @property
    def quick(self) -> SparkSession:
        """The session for work on small changes."""
        if self._quick is None:
            self._quick = beside(self._first, {**QUICK, **self._settings})
        return self._quick

    @property
    def all_sessions(self) -> list[SparkSession]:
        return [self._first, *self.query_sessions]

    @property
    def query_sessions(self) -> list[SparkSession]:
        return [*self.queries.sessions, *self.small_queries.sessions]

    @property
    def is_second_try(self) -> bool:
        """Do these serve queries that Spark has failed to plan?"""
        return bool(self._settings)


@contextmanager
def query_result(
    sessions: EngineSessions, locate: Locate, query: str, tables: Mapping[str, View], tag: str
) -> Iterator[DataFrame]:
    """The rows of a query over these tables; they can be read only inside the context."""
    text = without_idle_names(query) if sessions.is_second_try else query
    pool = sessions.small_queries if is_small(tables) else sessions.queries
    with pool.acquire() as spark, tagged_apart(spark, tag):
        reader = Reader(spark, locate)
        with named_tables(spark, {name: reader.frame(view) for name, view in tables.items()}):
            yield spark.sql(text)


def write_result(rows: DataFrame, target: Target, *, small: bool) -> Schema:
    """Write a query's rows as the whole content of a declared table; few of them without a job of Spark's."""
    content = target.schema or content_schema(rows.schema)
    shaped = rows.select(*(column(f.name).cast(f.type).alias(f.name) for f in target.physical(content)))
    if small and target.directory.startswith("/") and is_plain_type(shaped.schema):
        try:
            found = batches.Held.of(shaped)
            batches.write(found.table.columns, found.struct, target)
            return content
        except batches.TooLarge:  # a few rows may become many
            pass
    save(shaped, target)
    return content


def is_small(tables: Mapping[str, View]) -> bool:
    blocks: list[Block] = [b for view in tables.values() for b in blocks_of(view)]
    return batches.few(blocks, FEW)


@contextmanager
def named_tables(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Let the frames be tables of the session, under these names."""
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(quoted(name))
        yield
    finally:
        for name in frames:
            spark.catalog.dropTempView(quoted(name))


def without_idle_names(query: str) -> str:
    """The same query without what WITH names and nobody reads, which Spark 4.3 trips over in derived tables.

    >>> without_idle_names("SELECT x FROM (WITH w AS (SELECT 1), v AS (SELECT 2 AS x) SELECT x FROM v)")
    'SELECT x FROM (WITH v AS (SELECT 2 AS x) SELECT x FROM v)'
    """
    try:
        return text_of(eliminate_ctes(parse(query)))
    except SqlglotError:  # only Spark can read it
        return query
