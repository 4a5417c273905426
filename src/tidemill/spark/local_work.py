"""The means by which an engine computes on the driver, shared by all its runs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.types import IntegerType, StructField, StructType

from tidemill.algebra.operators import ORDER, BlockScan, Operator
from tidemill.algebra.rewrite.passes import rewrite_local_statement
from tidemill.algebra.views import ViewExpansion
from tidemill.local.batch import Batch, ColumnCache, StoredRows
from tidemill.local.engine import LocalDatabase, LocalEngine
from tidemill.local.spark_types import is_plain_type, parse_ddl, to_nullable_ddl
from tidemill.local.values import Unsupported
from tidemill.model.view import Snapshot, View, list_blocks
from tidemill.planner.cost import ScanVolume
from tidemill.ports.engine import EngineLimits
from tidemill.spark.batches import count_rows
from tidemill.spark.placement import Place, Placement, StepCosts, choose_place

T = TypeVar("T")
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
    read_costs: StepCosts = field(default_factory=StepCosts)

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

    def compute_view(
        self,
        view: View,
        costs: StepCosts,
        use_rows: Callable[[Batch], T | Unsupported],
        compute_on_spark: Callable[[], T],
        limit: int | None = None,
    ) -> tuple[T, Placement, float]:
        """The result where it is cheaper and possible, the choice, and the seconds; at most `limit` rows are needed."""
        blocks, began = list_blocks(view), perf_counter()
        volume = ScanVolume(change=float(count_rows(blocks)), bytes=float(sum(b.bytes for b in blocks)))
        # Where nothing is merged, Spark stops reading at the limit.
        is_limited = limit is not None and isinstance(view, Snapshot) and not view.deltas
        on_spark = ScanVolume(change=min(volume.change, float(limit or 0))) if is_limited else volume
        placement, is_open = choose_place(volume, costs, self.limits, on_spark), "database" in self.__dict__
        result: T | Unsupported = Unsupported()
        if placement.place is Place.DRIVER:
            rows = self.try_compute(view)
            result = rows if isinstance(rows, Unsupported) else use_rows(rows)
        if isinstance(result, Unsupported):
            reason = placement.reason if placement.place is Place.SPARK else f"the driver cannot: {result}"
            placement, result = Placement(Place.SPARK, reason), compute_on_spark()
        seconds = perf_counter() - began
        if placement.place is Place.SPARK or is_open:  # opening the database is no cost of a step
            costs.add_step(placement.place, on_spark if placement.place is Place.SPARK else volume, seconds)
        return result, placement, seconds

    def try_compute(self, view: View) -> Batch | Unsupported:
        """The rows of a view, computed on the driver."""
        op = rewrite_local_statement(self.expansion.expand_view(view))
        return LocalEngine(self.database, self.read_leaf).try_execute(op)

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
