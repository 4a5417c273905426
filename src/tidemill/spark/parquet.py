"""Reading Parquet files with Spark."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType, StructType

from tidemill.spark.types import build_column

_NAN = float("nan")


def read_parquet(spark: SparkSession, schema: str | StructType, paths: Sequence[str]) -> DataFrame:
    """Read the rows of files; comparisons of floating-point columns are evaluated by Spark itself."""
    return keep_float_filters_in_spark(spark.read.schema(schema).parquet(*paths))


def keep_float_filters_in_spark(rows: DataFrame) -> DataFrame:
    """The same rows, with no filter on a floating-point column pushed down to the files.

    Spark treats -0.0 as equal to 0.0 and NaN as larger than every number; Parquet's statistics and dictionaries do not,
    so a pushed-down filter skips row groups whose rows satisfy it. `nanvl` changes no value and is not pushed down.
    Fields of structs are not pushed down at all (`spark/session.py`).
    """
    floats = [f for f in rows.schema if isinstance(f.dataType, FloatType | DoubleType)]
    guarded = {f.name: F.nanvl(build_column(f.name), F.lit(_NAN).cast(f.dataType)) for f in floats}
    return rows.withColumns(guarded) if guarded else rows
