"""DuckDB as the engine that executes operators on the driver."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import duckdb
import pyarrow as pa

from tidemill.algebra.operators import Operator
from tidemill.errors import BlockDamaged
from tidemill.local.batch import Batch, StoredRows, to_batch
from tidemill.local.duckdb_sql import MACROS, name_type, quote_name, read_files
from tidemill.local.operator_sql import OperatorTranslator, SqlRelation
from tidemill.local.page_checksums import verify_checksums
from tidemill.local.values import Unsupported
from tidemill.model.error_summary import summarize_error

ReadLeaf = Callable[[Operator], Batch | StoredRows | None]
"""The rows of an operator that are available without computation."""

warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")
"""A relation (`sql`) would not copy the rows, but binds each statement twice, which takes longer."""

_BATCH_ROWS = 100_000
"""Rows of a result between two checks of its size."""


class LocalDatabase:
    """A database in memory, shared by all engines of a process; it holds nothing but settings."""

    def __init__(self, memory: int, *, threads: int = 2) -> None:
        """`memory`: the bytes that it may use; what exceeds them fails, and is left to Spark."""
        self.memory = memory
        self.connection = duckdb.connect(
            ":memory:",
            config={
                "threads": threads,
                "memory_limit": f"{memory}B",
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "preserve_insertion_order": False,
                "temp_directory": "",
            },
        )
        self.connection.execute("SET GLOBAL TimeZone = 'UTC'")
        for macro in MACROS:
            self.connection.execute(macro)
        self._verified: set[tuple[str, str]] = set()

    def verify_files(self, rows: StoredRows) -> None:
        """Verify the checksums of columns that were not read before: DuckDB ignores them. Files never change."""
        for _, path in rows.files:
            columns = {n for n in rows.stored if (path, n) not in self._verified}
            if columns:
                verify_checksums(Path(path), columns)
                self._verified |= {(path, n) for n in columns}

    def close(self) -> None:
        self.connection.close()


class LocalEngine:
    """Executes each tree of operators as one statement; safe to use from several threads."""

    def __init__(self, database: LocalDatabase, read_leaf: ReadLeaf) -> None:
        self._database = database
        self._read_leaf = read_leaf
        self._results: dict[Operator, Batch | Unsupported] = {}

    def try_execute(self, op: Operator) -> Batch | Unsupported:
        """The operator's rows, or why Spark must compute them; each operator is executed once."""
        if op not in self._results:
            try:
                self._results[op] = self._execute(op)
            except Unsupported as problem:
                self._results[op] = problem
            except (duckdb.Error, pa.ArrowException, BlockDamaged, OSError) as error:  # Spark reports the fault
                self._results[op] = Unsupported(summarize_error(error))
        return self._results[op]

    def _execute(self, op: Operator) -> Batch:
        leaf = self._read_leaf(op)
        if isinstance(leaf, Batch):
            return leaf
        leaves = _Leaves(self._read_leaf)
        statement = OperatorTranslator(leaves.find_relation).translate(op)
        for rows in leaves.files:
            self._database.verify_files(rows)
        with self._database.connection.cursor() as cursor:
            # DuckDB finds tables among the variables of its caller, which `eval` can provide; to register each costs as
            # much as a small join.
            variables = {"cursor": cursor, "sql": statement.sql, **leaves.tables}
            reader: pa.RecordBatchReader = eval("cursor.execute(sql)", variables).to_arrow_reader(_BATCH_ROWS)
            table = pa.Table.from_batches(self._limit_size(reader), reader.schema)
        return to_batch(table, statement.struct)

    def _limit_size(self, batches: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """The batches of a result, which is outside the memory limit of DuckDB."""
        size = 0
        for batch in batches:
            size += batch.nbytes
            if size > self._database.memory:
                raise Unsupported(f"a result of more than {self._database.memory} bytes")
            yield batch


@dataclass
class _Leaves:
    """The leaves of a statement: Arrow tables by their names, and files."""

    read_leaf: ReadLeaf
    tables: dict[str, pa.Table] = field(default_factory=dict)
    files: list[StoredRows] = field(default_factory=list)

    def find_relation(self, op: Operator) -> SqlRelation | None:
        match self.read_leaf(op):
            case Batch(table=table, struct=struct):
                name = f"leaf{len(self.tables)}"
                self.tables[name] = table.rename_columns([f"c{i}" for i in range(len(struct))])
                return SqlRelation(name, struct)
            case StoredRows() as rows:
                self.files.append(rows)
                return SqlRelation(f"({_read_files(rows)})", rows.struct)
        return None


def _read_files(rows: StoredRows) -> str:
    """The rows of files; one scan for each block if they are numbered, else for all."""
    if not rows.files:
        return f"SELECT {_list_items(rows, 0, is_empty=True)} WHERE FALSE"
    scans = []
    for number, files in groupby(rows.files, key=lambda file: file[0] if rows.order else 0):
        scans.append(f"SELECT {_list_items(rows, number)} FROM {read_files([path for _, path in files])}")
    return " UNION ALL ".join(scans)


def _list_items(rows: StoredRows, number: int, *, is_empty: bool = False) -> str:
    values = {n: quote_name(n) for n in rows.stored if not is_empty} | {rows.order: str(number)}
    casts = (f"CAST({values.get(f.name, 'NULL')} AS {name_type(f.dataType)})" for f in rows.struct)
    return ", ".join(f"{cast} AS c{i}" for i, cast in enumerate(casts))
