"""Stream join: an order is joined with its payment, in either order and after any delay.

Both streams are merged into one, keyed by order number; the state of a number holds the sides that have arrived.
"""

from typing import Any

import numpy as np

import tidemill as tm
from tidemill.stream import KeyedResult

wf = tm.Workflow("stream_join")

wf.input("orders", "number bigint, price bigint")
wf.input("payments", "number bigint, paid bigint")
wf.table("sides", "number bigint, price bigint, paid bigint")


@wf.task(writes={"sides": tm.Delta})
def both(orders: tm.New, payments: tm.New) -> Any:
    """Merge both streams; the columns of the other side are zero."""
    left = orders.selectExpr("number", "price", "0L AS paid")
    return {"sides": left.unionByName(payments.selectExpr("number", "0L AS price", "paid"))}


@wf.keyed(
    state="number bigint, price bigint, paid bigint",
    by="number",
    writes={"matched": "number bigint, price bigint, paid bigint"},
)
def matching(state: Any, sides: tm.New) -> KeyedResult:
    """Emit a number when its second side arrives."""
    before = (state["price"] > 0) & (state["paid"] > 0)
    for side in ("price", "paid"):
        state[side] = np.where(sides[side] > 0, sides[side], state[side])
    new = (state["price"] > 0) & (state["paid"] > 0) & ~before
    return KeyedResult(state, {"matched": {name: state[name][new] for name in ("number", "price", "paid")}})
