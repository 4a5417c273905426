"""The lists of Spark's functions equal Spark's own, and their values for empty input equal Spark's."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidemill.algebra.sql import functions

_NOT_LISTED = {
    "agg_funcs",
    "avro_funcs",
    "generator_funcs",
    "protobuf_funcs",
    "st_funcs",
    "table_funcs",
    "window_funcs",
}
_ROW_FUNCTIONS = {"session_window", "window", "window_time", "json_tuple", "variant_explode", "variant_explode_outer"}
"""Listed as scalar functions, although they return rows or groups."""

_CALLS = {
    **dict.fromkeys(("corr", "covar_pop", "covar_samp", "max_by", "min_by"), "{}(d, d)"),
    **dict.fromkeys(("percentile", "percentile_approx", "approx_percentile"), "{}(d, 0.5)"),
    **dict.fromkeys(("percentile_cont", "percentile_disc"), "{}(0.5) WITHIN GROUP (ORDER BY d)"),
    **dict.fromkeys(("any", "every", "some", "bool_and", "bool_or", "count_if"), "{}(p)"),
    **dict.fromkeys(("listagg", "string_agg"), "{}(s)"),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), "{}(i)"),
}


def test_the_lists_equal_sparks_functions(spark: SparkSession) -> None:
    infos = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()  # type: ignore[union-attr]
    groups = {info.getName(): info.getGroup() for info in infos}
    aggregates = {name for name, group in groups.items() if group == "agg_funcs"}
    assert aggregates | {"schema_of_variant_agg", "vector_avg", "vector_sum"} == functions.AGGREGATE
    assert {name for name, group in groups.items() if group == "window_funcs"} == functions.WINDOW_ONLY
    scalar_names = {name for name, group in groups.items() if group not in _NOT_LISTED and name.isidentifier()}
    rest = scalar_names - functions.AGGREGATE - functions.NONDETERMINISTIC - _ROW_FUNCTIONS
    assert functions.SCALAR - {"timestampadd", "timestampdiff"} == rest | {"unix_timestamp"}


def test_values_for_empty_input_equal_sparks(spark: SparkSession) -> None:
    values = {
        **dict.fromkeys(functions.NULL_IF_EMPTY),
        **dict.fromkeys(functions.ZERO_IF_EMPTY, 0),
        **{key: [] for key in functions.ARRAY_IF_EMPTY},
    }
    calls = [f"{_build_call(name)} AS {name}" for name in sorted(values)]
    nothing = "SELECT 1 AS i, 1.5D AS d, TRUE AS p, 's' AS s WHERE FALSE"
    (row,) = spark.sql(f"SELECT {', '.join(calls)} FROM ({nothing})").collect()
    assert row.asDict() == values


def _build_call(name: str) -> str:
    has_two_arguments = name.startswith("regr_")
    return _CALLS.get(name, "{}(d, d)" if has_two_arguments else "{}(d)").format(name)


@pytest.mark.parametrize(
    "lists", [("NULL_IF_EMPTY", "ZERO_IF_EMPTY"), ("SCALAR", "NONDETERMINISTIC"), ("SCALAR", "AGGREGATE")]
)
def test_no_function_is_in_two_lists(lists: tuple[str, str]) -> None:
    first, second = (getattr(functions, name) for name in lists)
    assert first & second <= {"unix_timestamp"}
