"""The refreshes of TPC-H: RF1 brings new orders with their line items, RF2 deletes old ones with theirs.

The specification's program makes new orders of its own. Here they are copies of old ones under new keys, of another
customer and with other prices: with the same prices, queries that keep the first rows by a price would have ties, and
more than one right answer.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemill.model.change import DELETED


def new_orders(orders: DataFrame, lineitem: DataFrame, share: float, turn: int) -> dict[str, DataFrame]:
    """RF1: what to insert into `orders` and `lineitem`. Each turn copies other orders."""
    beyond = orders.agg(F.max("o_orderkey")).collect()[0][0]
    others = orders.where(_chosen("o_orderkey", share, 2 * turn)).withColumn("o_custkey", F.col("o_custkey") + 1)
    items = lineitem.where(_chosen("l_orderkey", share, 2 * turn))
    return {
        "orders": _renewed(others, "o_orderkey", "o_totalprice", beyond),
        "lineitem": _renewed(items, "l_orderkey", "l_extendedprice", beyond),
    }


def deleted_orders(orders: DataFrame, lineitem: DataFrame, share: float, turn: int) -> dict[str, DataFrame]:
    """RF2: what to insert to delete orders and their line items. Each turn deletes others: the last turn's are gone."""
    return {
        "orders": _deletions(orders.where(_chosen("o_orderkey", share, 2 * turn + 1))),
        "lineitem": _deletions(lineitem.where(_chosen("l_orderkey", share, 2 * turn + 1))),
    }


def _chosen(key: str, share: float, which: int) -> Column:
    """Orders fall into classes, by a hash of their keys, of about `share` of them each."""
    return F.pmod(F.xxhash64(key), F.lit(max(2, round(1 / share)))) == which


def _renewed(rows: DataFrame, key: str, price: str, beyond: int) -> DataFrame:
    """The rows as those of other orders, each with a price that is a little higher, by what follows from its key."""
    cents = (F.pmod(F.col(key), F.lit(9973)) + 1) / 100
    return rows.withColumns({price: (F.col(price) + cents).cast("decimal(15, 2)"), key: F.col(key) + beyond})


def _deletions(rows: DataFrame) -> DataFrame:
    return rows.withColumn(DELETED, F.lit(True))
