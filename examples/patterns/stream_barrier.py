"""Barrier: an order is split into items that are shipped separately, and is confirmed when all of them are shipped.

An order starts a wave: its items have the tags 17.1, 17.2 and 17.3!; the exclamation mark labels the last one. Each
shipment returns the tag of its item, so that the window is complete exactly when no item is missing, in any order of
arrival.
"""

import tidemill as tm

wf = tm.Workflow("stream_barrier")

wf.input("orders", "number bigint, items array<string>")
wf.waves("placed", "orders")
wf.sql("items", "SELECT number, explode(items) AS item FROM placed", waves="placed")

wf.input("shipped", "item string, wave string")
wf.window("complete", "shipped", "1 wave", "1 wave")
wf.sql(
    "confirmed",
    "SELECT p.number, c.item FROM complete c JOIN placed p ON p.wave = substring_index(c.wave, '.', 1)",
)
