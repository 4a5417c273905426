"""Reading blocks and views as DataFrames."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.algebra.operators import ORDER, BlockScan, Scan
from tidemill.local.spark_types import to_nullable_ddl
from tidemill.model.error_summary import OWN_MESSAGE
from tidemill.model.schema import Field, Schema
from tidemill.model.view import View
from tidemill.spark.batches import create_frame
from tidemill.spark.local_work import LocalWork
from tidemill.spark.operators import OperatorCompiler
from tidemill.spark.parquet import keep_float_filters_in_spark, read_parquet
from tidemill.spark.types import adapt_frame, build_columns, create_empty_frame

_ORDER_FIELD = Field(ORDER, "int")


class BlockReader:
    """Reads blocks as DataFrames. It reads exactly the files that the catalog lists, without listing directories."""

    def __init__(self, spark: SparkSession, work: LocalWork) -> None:
        self._spark = spark
        self._work = work

    def read_view(self, view: View) -> DataFrame:
        compiler = OperatorCompiler(self._spark, self.read_scan, is_small=self._work.limits.is_small_change)
        return compiler.build_frame(self._work.expansion.expand_view(view))

    def read_scan(self, scan: Scan | BlockScan) -> DataFrame:
        assert isinstance(scan, BlockScan), f"the scan of {scan.channel} was not expanded"
        target = _add_order(scan.schema, scan)
        if not scan.files:
            return create_empty_frame(self._spark, to_nullable_ddl(target)).select(*build_columns(scan.columns))
        if (rows := self._work.read_small_scan(scan)) is not None:
            return create_frame(self._spark, rows.table, rows.struct)
        stored = self._scan_numbered(scan) if ORDER in scan.columns else self._scan_files(scan)
        return adapt_frame(stored, _add_order(scan.stored_schema, scan), target).select(*build_columns(scan.columns))

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
        unknown = F.raise_error(F.concat(F.lit(f"{OWN_MESSAGE}Spark read a file that was not requested: "), file)).cast(
            "int"
        )
        numbered = rows.select("*", F.coalesce(F.expr(f"map({mapping})")[file], unknown).alias(ORDER))
        return keep_float_filters_in_spark(numbered)

    def _list_paths(self, scan: BlockScan) -> list[str]:
        return [self._work.locate(path) for path in scan.files]


def _add_order(schema: Schema, scan: BlockScan) -> Schema:
    return schema.add_fields(_ORDER_FIELD) if ORDER in scan.columns else schema
