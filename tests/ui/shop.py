"""A workflow for the engine without Spark. While a file named `broken` exists next to it, one of its tasks fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tidemill as tm

wf = tm.Workflow("shop")
wf.input("orders", "id bigint, city string, amount double")
wf.input("cities", "city string, country string", key="city")
wf.table("large_orders", "id bigint, city string, amount double")
wf.table("first_orders", "id bigint, city string")
wf.table("seen", "city string")

BROKEN = Path(__file__).with_name("broken")


@wf.task(triggers=[tm.on("orders")])
def large_orders(orders: tm.New) -> tm.Delta:
    if BROKEN.exists():
        raise RuntimeError("<img src=x onerror=alert(1)> is no amount\nsecond line")
    return {"large_orders": [r for r in orders if r["amount"] >= 100]}


@wf.task(writes={"first_orders": tm.Delta, "seen": tm.Delta}, triggers=[tm.after("large_orders")])
def firsts(large_orders: tm.New, seen: tm.All) -> dict[str, tm.Delta]:
    known = {r["city"] for r in seen}
    first: dict[str, Any] = {}
    for row in large_orders:
        if row["city"] not in known:
            first.setdefault(row["city"], {"id": row["id"], "city": row["city"]})
    return {"first_orders": list(first.values()), "seen": [{"city": c} for c in first]}


wf.sql(
    "city_totals",
    "SELECT o.city, c.country, sum(o.amount) AS total FROM large_orders o JOIN cities c ON o.city = c.city "
    "GROUP BY o.city, c.country",
    refresh="batch",
    triggers=[tm.after("large_orders")],
)
