"""Orders arrive; Tidemill maintains the large ones, and their totals in each city."""

import tidemill as tm

wf = tm.Workflow("shop")
wf.input("orders", "id bigint, city string, amount double")

report = tm.Flow("report")


@report.task
def large_orders(orders: tm.New) -> tm.Delta:
    """Reads only the orders that arrived since its last run, and appends its result."""
    return orders.where("amount >= 100")


# A declared table: equal to its query, refreshed incrementally or in batch, whichever is cheaper.
report.sql("city_totals", "SELECT city, count(*) AS orders, sum(amount) AS total FROM large_orders GROUP BY city")

wf.bind(report)
