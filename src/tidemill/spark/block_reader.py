"""Reading blocks and views as DataFrames."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.algebra.operators import ORDER, BlockScan, Scan
from tidemill.algebra.views import SmallChangeTest, ViewExpansion, is_small_change
from tidemill.model.schema import Field, Schema
from tidemill.model.view import View
from tidemill.spark.local import batches
from tidemill.spark.operators import OperatorCompiler
from tidemill.spark.parquet import keep_float_filters_in_spark, read_parquet
from tidemill.spark.types import adapt_frame, build_columns, to_nullable_ddl

Locate = Callable[[str], str]

_ORDER_FIELD = Field(ORDER, "int")


class BlockReader:
    """Reads blocks as DataFrames. It reads exactly the files that the catalog lists, without listing directories."""

    def __init__(self, spark: SparkSession, locate: Locate, *, driver_rows: int = batches.MAX_RELATION_ROWS) -> None:
        """`driver_rows`: the number of rows up to which the driver reads blocks and passes them to Spark."""
        self._spark = spark
        self._locate = locate
        self._driver_rows = driver_rows

    def read_scan(self, scan: Scan | BlockScan) -> DataFrame:
        """The rows of a scan of blocks."""
        assert isinstance(scan, BlockScan), f"the scan of {scan.channel} was not expanded"
        target = _add_order(scan.schema, scan)
        if not scan.files:
            return self._spark.createDataFrame([], to_nullable_ddl(target)).select(*build_columns(scan.columns))
        if (rows := self._read_locally(scan)) is not None:
            return rows
        stored = self._scan_numbered(scan) if ORDER in scan.columns else self._scan_files(scan)
        return adapt_frame(stored, _add_order(scan.stored_schema, scan), target).select(*build_columns(scan.columns))

    def _read_locally(self, scan: BlockScan) -> DataFrame | None:
        """The rows of blocks that are small enough for the driver to read; else None."""
        if not batches.has_few_rows(scan.blocks, self._driver_rows):
            return None
        rows = batches.read_blocks(scan, self._locate)
        return None if rows is None else rows.to_frame(self._spark)

    def _scan_files(self, scan: BlockScan) -> DataFrame:
        return read_parquet(self._spark, to_nullable_ddl(scan.stored_schema), self._list_paths(scan))

    def _scan_numbered(self, scan: BlockScan) -> DataFrame:
        """One scan of all blocks, with the number of each row's block, derived from its file.

        Spark reports a file's full path with special characters escaped; the part of it that the store chose has none.
        """
        if len(scan.blocks) == 1:
            return self._scan_files(scan).withColumn(ORDER, F.lit(scan.first))
        numbers = {f.path.strip("/"): number for number, b in enumerate(scan.blocks, scan.first) for f in b.files}
        depth = min(path.count("/") for path in numbers) + 1
        mapping = ", ".join(f"'{'/'.join(path.split('/')[-depth:])}', {n}" for path, n in numbers.items())
        rows = self._spark.read.schema(to_nullable_ddl(scan.stored_schema)).parquet(*self._list_paths(scan))
        file = F.substring_index(rows.metadataColumn("_metadata").getField("file_path"), "/", -depth)
        unknown = F.raise_error(F.concat(F.lit("Spark read a file that was not requested: "), file)).cast("int")
        numbered = rows.select("*", F.coalesce(F.expr(f"map({mapping})")[file], unknown).alias(ORDER))
        return keep_float_filters_in_spark(numbered)

    def _list_paths(self, scan: BlockScan) -> list[str]:
        return [self._locate(path) for path in scan.files]


class ViewReader:
    """Reads views as DataFrames."""

    def __init__(
        self,
        spark: SparkSession,
        locate: Locate,
        is_small: SmallChangeTest = is_small_change,
        driver_rows: int = batches.MAX_RELATION_ROWS,
    ) -> None:
        self._spark = spark
        self._expansion = ViewExpansion(is_small)
        self._blocks = BlockReader(spark, locate, driver_rows=driver_rows)

    def read_frame(self, view: View) -> DataFrame:
        compiler = OperatorCompiler(self._spark, self._blocks.read_scan, is_small=self._expansion.is_small)
        return compiler.build_frame(self._expansion.expand_view(view))


def _add_order(schema: Schema, scan: BlockScan) -> Schema:
    return schema.add_fields(_ORDER_FIELD) if ORDER in scan.columns else schema
