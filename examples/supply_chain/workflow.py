"""Supply-chain monitoring: a shop, its warehouses, and the manager who wants to know at once what goes wrong.

A customer orders several products. The order is split into requests, one to the warehouse that carries the product;
each is shipped by itself, in whatever order. The customer is told when everything is shipped and paid. If a product is
reported out of stock twice within ten minutes, the manager is told; and sees how many orders and shipments there are.

An order starts a wave. Its requests carry tags, `17.1`, `17.2` and `17.3!`, the mark saying which is the last, and a
warehouse sends the tag back with the shipment. So the workflow knows when nothing is missing.

    cd examples/supply_chain
    tidemill apply && tidemill up       # the page is at http://127.0.0.1:8484
    python simulate.py --seconds 120    # in another terminal: twenty customers, three warehouses

Look at the channels `volume`, `alerts` and `fulfilled` on the page: their newest rows are shown as they come. Or
`tidemill follow fulfilled`; and `tidemill lineage requests TAG` shows what became of one request.
"""

import tidemill as tm

wf = tm.Workflow("supply_chain")

wf.input("orders", "customer string, items array<string>")
wf.input("stock", "item string, warehouse string", key="item")
wf.input("shipments", "item string, wave string")  # from warehouses
wf.input("payments", "amount bigint, wave string")  # from customers
wf.input("shortages", "item string, warehouse string, at timestamp")  # from warehouses

# Split: each order is a wave, and what is asked of warehouses is part of it.

wf.waves("placed", "orders", triggers=[tm.on("orders")])

wf.sql(
    "requests",
    """
    SELECT o.customer, stock.item, stock.warehouse
    FROM placed o JOIN stock ON array_contains(o.items, stock.item)
    """,
    waves="placed",
    triggers=[tm.on("placed")],
)

# An order of which no warehouse has anything ended there.
wf.sql(
    "refused",
    "SELECT o.customer, o.items FROM requests_ended e JOIN placed o USING (wave)",
    triggers=[tm.after("requests")],
)

# Join: everything of it is shipped, in one window; shipped and paid, it is fulfilled.

wf.window("shipped", "shipments", "1 wave", "1 wave", triggers=[tm.on("shipments")])

wf.barrier("complete", ["shipments", "payments"], triggers=[tm.on("shipments"), tm.on("payments")])

wf.sql(
    "fulfilled",
    "SELECT o.customer, o.items FROM complete c JOIN placed o USING (wave)",
    triggers=[tm.on("complete")],
)

# Watch: what goes wrong twice, and how much there is of everything.

wf.window(
    "again",
    "shortages",
    "10 minutes",
    by=["item"],
    time="at",
    at_least=2,
    delete_used=True,
    triggers=[tm.on("shortages")],
)

wf.sql(
    "alerts",
    "SELECT item, count(*) AS reports, max(at) AS at FROM again GROUP BY item, _window",
    triggers=[tm.on("again")],
)

wf.window("orders_a_second", "orders", "1s", "1s", timeout=1, sums=[], every="1s")
wf.window("shipments_a_second", "shipments", "1s", "1s", timeout=1, sums=[], every="1s")

wf.sql(
    "volume",
    """
    SELECT 'orders' AS what, _window_end AS at, _events AS events FROM orders_a_second
    UNION ALL
    SELECT 'shipments' AS what, _window_end AS at, _events AS events FROM shipments_a_second
    """,
    triggers=[tm.on("orders_a_second"), tm.on("shipments_a_second")],
)
