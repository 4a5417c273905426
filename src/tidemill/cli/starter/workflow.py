"""Orders arrive; Tidemill keeps the large ones, and what they come to in each city."""

import tidemill as tm

wf = tm.Workflow("shop")
wf.input("orders", "id bigint, city string, amount double")

report = tm.Flow("report")


@report.task
def large_orders(orders: tm.New) -> tm.Delta:
    """Sees only the orders that came since its last run, and adds what it returns."""
    return orders.where("amount >= 100")


# A declared table: kept equal to its query, incrementally or in batch, whichever is cheaper.
report.sql("city_totals", "SELECT city, count(*) AS orders, sum(amount) AS total FROM large_orders GROUP BY city")

wf.bind(report)
