"""Users' queries as written, run by Spark in sessions where the tables have the users' names."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from queue import Empty, LifoQueue

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.eliminate_ctes import eliminate_ctes

from tidemill.algebra.dialect import parse_query, to_sql
from tidemill.algebra.expression import quote_name
from tidemill.local.spark_types import is_plain_type
from tidemill.model.schema import Schema
from tidemill.model.view import View, list_blocks
from tidemill.ports.engine import EngineLimits, WriteTarget
from tidemill.spark import batches
from tidemill.spark.block_reader import BlockReader
from tidemill.spark.block_writer import save_frame
from tidemill.spark.local_work import LocalWork
from tidemill.spark.session import (
    SMALL_QUERY_SETTINGS,
    create_isolated_session,
    create_sibling_session,
    tag_isolated_jobs,
)
from tidemill.spark.session_loss import SessionMonitor
from tidemill.spark.types import cast_frame, to_content_schema

Views = Mapping[str, View]


class QuerySessions:
    """Sessions for users' queries. Each serves one query at a time, whose tables are its temporary views."""

    def __init__(self, create_session: Callable[[], SparkSession]) -> None:
        self._create_session = create_session
        self._idle: LifoQueue[SparkSession] = LifoQueue()
        self.sessions: list[SparkSession] = []

    @contextmanager
    def acquire_session(self) -> Iterator[SparkSession]:
        try:
            session = self._idle.get_nowait()
        except Empty:
            session = self._create_session()
            self.sessions.append(session)
        try:
            yield session
        finally:
            self._idle.put(session)


class EngineSessions:
    """The sessions of an engine, all with the same settings in addition to those of their purpose."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str] | None = None) -> None:
        self._first = spark
        self.monitor = SessionMonitor(spark)
        self._settings = dict(settings or {})
        self.spark = create_sibling_session(spark, self._settings) if self._settings else spark
        self.queries = QuerySessions(lambda: create_isolated_session(spark, self._settings))
        self._small_settings = {**SMALL_QUERY_SETTINGS, **self._settings}
        self.small_queries = QuerySessions(lambda: create_isolated_session(spark, self._small_settings))

    @cached_property
    def quick_session(self) -> SparkSession:
        """The session for work on small changes."""
        return create_sibling_session(self._first, self._small_settings)

    @property
    def all_sessions(self) -> list[SparkSession]:
        return [self._first, *self.query_sessions]

    @property
    def query_sessions(self) -> list[SparkSession]:
        return [*self.queries.sessions, *self.small_queries.sessions]

    @property
    def is_second_try(self) -> bool:
        """Whether these sessions serve queries that Spark failed to plan."""
        return bool(self._settings)


@contextmanager
def run_query(sessions: EngineSessions, work: LocalWork, query: str, tables: Views, tag: str) -> Iterator[DataFrame]:
    """The rows of a query over these tables; they can only be read inside the context."""
    text = remove_unused_ctes(query) if sessions.is_second_try else query
    pool = sessions.small_queries if is_small(tables, work.limits) else sessions.queries
    with pool.acquire_session() as spark, tag_isolated_jobs(spark, tag):
        reader = BlockReader(spark, work)
        with register_tables(spark, {name: reader.read_view(view) for name, view in tables.items()}):
            yield spark.sql(text)


def write_result(rows: DataFrame, target: WriteTarget, *, is_collected: bool) -> Schema:
    """Write a query's rows as the full content of a declared table; small results without a Spark job."""
    content = target.schema or to_content_schema(rows.schema)
    shaped = cast_frame(rows, target.to_physical_schema(content))
    can_collect = is_collected and target.directory.startswith("/") and is_plain_type(shaped.schema)
    batch = batches.collect_batch(shaped) if can_collect else None
    if batch is None:
        save_frame(shaped, target)
    else:
        batches.write_batch(batch.table.columns, batch.struct, target)
    return content


def is_small(tables: Views, limits: EngineLimits) -> bool:
    """Whether the tables have so few rows that one task computes a query: the result may have many more."""
    return batches.count_rows(b for view in tables.values() for b in list_blocks(view)) <= limits.relation_rows


@contextmanager
def register_tables(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(quote_name(name))
        yield
    finally:
        for name in frames:
            spark.catalog.dropTempView(quote_name(name))


def remove_unused_ctes(query: str) -> str:
    """The same query without unused WITH definitions, on which Spark 4.3 fails in derived tables.

    >>> remove_unused_ctes("SELECT x FROM (WITH w AS (SELECT 1), v AS (SELECT 2 AS x) SELECT x FROM v)")
    'SELECT x FROM (WITH v AS (SELECT 2 AS x) SELECT x FROM v)'

    Spark ignores the case of names, and a query in which all are used is not rewritten:

    >>> remove_unused_ctes("WITH T AS (select 1 AS x) SELECT x FROM t")
    'WITH T AS (select 1 AS x) SELECT x FROM t'
    """
    try:
        tree = parse_query(query)
        unused = _find_unused_ctes(tree)
    except SqlglotError:  # only Spark can parse it
        return query
    for cte in unused:
        definitions = cte.parent
        cte.pop()
        if definitions is not None and not definitions.expressions:
            definitions.pop()
    return to_sql(tree) if unused else query


def _find_unused_ctes(tree: exp.Expr) -> list[exp.CTE]:
    lowered = tree.copy()
    for identifier in lowered.find_all(exp.Identifier):
        identifier.set("this", identifier.name.lower())
    for number, cte in enumerate(lowered.find_all(exp.CTE)):
        cte.meta["number"] = number
    used = {cte.meta["number"] for cte in eliminate_ctes(lowered).find_all(exp.CTE)}
    return [cte for number, cte in enumerate(tree.find_all(exp.CTE)) if number not in used]
