"""User-defined merge functions: each key's rows arrive as one Arrow table of (order, base row, delta row)."""

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidemill.algebra.operators import ORDER, CustomMerge
from tidemill.local.spark_types import parse_ddl, to_nullable_ddl
from tidemill.model.change import Custom, Rows
from tidemill.spark.types import build_column, build_columns


def apply_custom_merge(op: CustomMerge, parts: Mapping[str, DataFrame]) -> DataFrame:
    """Group the parts by key and compute the result's rows of each group with the user's function."""
    structs = {side: frame.drop(ORDER).schema for side, frame in parts.items()}
    boxed = [_box_rows(op.updates, frame, side, structs) for side, frame in parts.items()]
    result = parse_ddl(to_nullable_ddl(op.schema))
    arrow = to_arrow_schema(result, timezone="UTC")
    updates, function = op.updates, op.function  # all that is sent to the workers

    def apply_to_key(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(_call_function(updates, function, _split_blocks(table)), schema=arrow)

    keys = [F.col(f"_k{i}") for i in range(len(op.updates.key))]
    return reduce(DataFrame.union, boxed).groupBy(*keys).applyInArrow(apply_to_key, result)


def _call_function(updates: Custom, function: str, blocks: dict[int, Rows]) -> Rows:
    """The result's rows of one key, from those of its blocks by number."""
    ordered = [blocks[i] for i in sorted(blocks) if i > 0]
    match function:
        case "merge":
            return reduce(updates.merge, ordered, blocks.get(0, []))
        case "chain":
            return reduce(updates.chain, ordered)
        case _:
            return updates.diff(blocks.get(1, []), blocks.get(2, []))


def _box_rows(updates: Custom, frame: DataFrame, side: str, structs: Mapping[str, StructType]) -> DataFrame:
    keys = [build_column(k).alias(f"_k{i}") for i, k in enumerate(updates.key)]
    boxes = [
        (F.struct(*build_columns(struct.names)) if name == side else F.lit(None).cast(struct)).alias(name)
        for name, struct in sorted(structs.items())
    ]
    return frame.select(*keys, build_column(ORDER), *boxes)


def _split_blocks(table: pa.Table) -> dict[int, Rows]:
    blocks: dict[int, Rows] = {}
    for record in table.to_pylist():
        row = record.get("base") if record.get("base") is not None else record["delta"]
        blocks.setdefault(record[ORDER], []).append(row)
    return blocks
