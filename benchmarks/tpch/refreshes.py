"""The refresh functions of TPC-H: RF1 inserts new orders with their line items, RF2 deletes old ones with theirs.

The specification's program generates new orders. Here they are copies of old ones with new keys, another customer and
other prices: with equal prices, queries that select the first rows by price would have ties, and more than one right
answer.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemill.model.change import DELETED


def create_new_orders(orders: DataFrame, lineitem: DataFrame, share: float, turn: int) -> dict[str, DataFrame]:
    """RF1: the rows to insert into `orders` and `lineitem`. Each turn copies other orders."""
    max_key = orders.agg(F.max("o_orderkey")).collect()[0][0]
    copies = orders.where(_select_class("o_orderkey", share, 2 * turn)).withColumn("o_custkey", F.col("o_custkey") + 1)
    items = lineitem.where(_select_class("l_orderkey", share, 2 * turn))
    return {
        "orders": _copy_with_new_keys(copies, "o_orderkey", "o_totalprice", max_key),
        "lineitem": _copy_with_new_keys(items, "l_orderkey", "l_extendedprice", max_key),
    }


def create_deletions(orders: DataFrame, lineitem: DataFrame, share: float, turn: int) -> dict[str, DataFrame]:
    """RF2: the rows that delete orders and their line items. Each turn deletes other orders."""
    return {
        "orders": _mark_deleted(orders.where(_select_class("o_orderkey", share, 2 * turn + 1))),
        "lineitem": _mark_deleted(lineitem.where(_select_class("l_orderkey", share, 2 * turn + 1))),
    }


def _select_class(key: str, share: float, number: int) -> Column:
    """A condition on the hash of the key, which selects one of the classes of about `share` of the orders."""
    return F.pmod(F.xxhash64(key), F.lit(max(2, round(1 / share)))) == number


def _copy_with_new_keys(rows: DataFrame, key: str, price: str, max_key: int) -> DataFrame:
    """The rows with new keys, and with prices that are slightly higher by an amount computed from the key."""
    cents = (F.pmod(F.col(key), F.lit(9973)) + 1) / 100
    return rows.withColumns({price: (F.col(price) + cents).cast("decimal(15, 2)"), key: F.col(key) + max_key})


def _mark_deleted(rows: DataFrame) -> DataFrame:
    return rows.withColumn(DELETED, F.lit(True))
