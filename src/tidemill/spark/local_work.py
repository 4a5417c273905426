"""The means by which an engine computes on the driver, shared by all its runs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pyspark.sql.types import IntegerType, StructField, StructType

from tidemill.algebra.operators import ORDER, BlockScan, Operator
from tidemill.algebra.views import ViewExpansion
from tidemill.local.batch import Batch, ColumnCache, StoredRows
from tidemill.local.engine import LocalDatabase
from tidemill.local.spark_types import is_plain_type, parse_ddl, to_nullable_ddl
from tidemill.local.values import Unsupported
from tidemill.ports.engine import EngineLimits
from tidemill.spark.placement import StepCosts

Locate = Callable[[str], str]

_CACHE_SHARE = 8
"""The share of the driver's memory for columns of small files, as a divisor."""


@dataclass
class LocalWork:
    """The limits of an engine, its database on the driver, and the costs of its steps."""

    locate: Locate
    limits: EngineLimits
    costs: StepCosts = field(default_factory=StepCosts)
    compaction_costs: StepCosts = field(default_factory=StepCosts)

    @cached_property
    def database(self) -> LocalDatabase:
        """The database, opened on first use."""
        return LocalDatabase(self.limits.driver_memory - self.column_cache.limit)

    @cached_property
    def column_cache(self) -> ColumnCache:
        return ColumnCache(self.limits.driver_memory // _CACHE_SHARE)

    @property
    def expansion(self) -> ViewExpansion:
        return ViewExpansion(self.limits.is_small_change)

    def close(self) -> None:
        if "database" in self.__dict__:
            self.database.close()
            del self.database

    def read_leaf(self, op: Operator) -> Batch | StoredRows | None:
        """The rows of a scan, read if they are few; raises `Unsupported` if the driver cannot read them."""
        if not isinstance(op, BlockScan):
            return None
        stored = self._find_stored_rows(op)
        return self.column_cache.read_rows(stored) if op.rows <= self.limits.relation_rows else stored

    def _find_stored_rows(self, scan: BlockScan) -> StoredRows:
        blocks = enumerate(scan.blocks, scan.first)
        files = tuple((number, self.locate(file.path)) for number, block in blocks for file in block.files)
        if not all(path.startswith("/") for _, path in files):
            raise Unsupported("the files are not on this machine")
        struct = parse_ddl(to_nullable_ddl(scan.schema))
        fields = {f.name: f for f in struct.fields} | {ORDER: StructField(ORDER, IntegerType())}
        selected = StructType([fields[name] for name in scan.columns])
        if not is_plain_type(selected):
            raise Unsupported("a type that only Spark has")
        stored = frozenset(n for n in scan.columns if n in scan.stored_schema)
        return StoredRows(files, selected, stored, ORDER if ORDER in scan.columns else None)

    def read_small_scan(self, scan: BlockScan) -> Batch | None:
        """The rows of a scan that are few enough to be part of a plan of Spark; else None."""
        if not self.limits.is_local or scan.rows > self.limits.relation_rows:
            return None
        try:
            return self.column_cache.read_rows(self._find_stored_rows(scan))
        except (Unsupported, pa.ArrowException, OSError):  # Spark reports a fault of the files, if there is one
            return None
