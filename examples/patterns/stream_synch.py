"""Stream synch: an order is split into items, each is shipped by itself, and it is confirmed once all of them are.

An order starts a wave: its items carry the tags 17.1, 17.2 and 17.3!, the mark saying which is the last. Whoever ships
an item sends its tag back. So it is known when nothing is missing, in whatever order they come.
"""

import tidemill as tm

wf = tm.Workflow("stream_synch")

wf.input("orders", "number bigint, items array<string>")
wf.waves("placed", "orders")
wf.sql("items", "SELECT number, explode(items) AS item FROM placed", waves="placed")

wf.input("shipped", "item string, wave string")
wf.window("complete", "shipped", "1 wave", "1 wave")
wf.sql(
    "confirmed",
    "SELECT p.number, c.item FROM complete c JOIN placed p ON p.wave = substring_index(c.wave, '.', 1)",
)
