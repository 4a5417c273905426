"""Stream synch: an order is split into items, each is shipped by itself, and it is confirmed once all of them are.

An order starts a wave: its items carry the tags 17.1, 17.2 and 17.3!, the mark saying which is the last. So whoever has
the tags knows when nothing is missing, in whatever order they come.
"""

import tidemill as tm

wf = tm.Workflow("stream_synch")

wf.input("orders", "number bigint, items array<string>")
wf.table("items", "item string, wave string")
wf.input("shipped", "item string, wave string")


@wf.task(output="items")
def split(orders: tm.New) -> tm.Delta:
    each = orders.selectExpr("number", "size(items) AS n", "posexplode(items) AS (place, item)")
    last = "CASE WHEN place + 1 = n THEN '!' ELSE '' END"
    return each.selectExpr("item", f"concat(number, '.', place + 1, {last}) AS wave")


wf.window("complete", "shipped", "1 wave", "1 wave")


@wf.task
def confirmed(complete: tm.New) -> tm.Delta:
    return complete.selectExpr("CAST(split(wave, '[.]')[0] AS bigint) AS number", "item")
