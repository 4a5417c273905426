"""Supply-chain monitoring: a shop with several warehouses, alerts on shortages, and figures per second.

A customer orders several products. The order is split into requests, one for each product to the warehouse that
carries it; these are shipped separately, in any order. The order is fulfilled when all of it is shipped and paid. A
product that is reported out of stock twice within ten minutes raises an alert for the manager, who also sees the
numbers of orders and shipments.

An order starts a wave. Its requests have the tags `17.1`, `17.2` and `17.3!`; the exclamation mark labels the last
one. A warehouse returns the tag with the shipment, so that the workflow detects when nothing is missing.

    cd examples/supply_chain
    tidemill apply && tidemill up       # the page is at http://127.0.0.1:8484
    python simulate.py --seconds 120    # in another terminal: twenty customers, three warehouses

The page shows the newest rows of the channels `volume`, `alerts` and `fulfilled` as they arrive, and so does
`tidemill subscribe fulfilled`; `tidemill lineage requests TAG` shows the rows derived from one request.
"""

import tidemill as tm

wf = tm.Workflow("supply_chain")

wf.input("orders", "customer string, items array<string>")
wf.input("stock", "item string, warehouse string", key="item")
wf.input("shipments", "item string, wave string")  # from warehouses
wf.input("payments", "amount bigint, wave string")  # from customers
wf.input("shortages", "item string, warehouse string, at timestamp")  # from warehouses

# Split: each order is a wave, and the requests to warehouses are parts of it.

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

# The wave of an order without any available product ends here.
wf.sql(
    "refused",
    "SELECT o.customer, o.items FROM requests_ended e JOIN placed o USING (wave)",
    triggers=[tm.after("requests")],
)

# Join: the shipments of an order form one window; a shipped and paid order is fulfilled.

wf.window("shipped", "shipments", "1 wave", "1 wave", triggers=[tm.on("shipments")])

wf.barrier("complete", ["shipments", "payments"], triggers=[tm.on("shipments"), tm.on("payments")])

wf.sql(
    "fulfilled",
    "SELECT o.customer, o.items FROM complete c JOIN placed o USING (wave)",
    triggers=[tm.on("complete")],
)

# Monitoring: products that are short twice, and events per second.

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
