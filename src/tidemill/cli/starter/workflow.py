"""Orders arrive; Tidemill keeps the large ones, and what they come to in each city."""

import tidemill as tm

wf = tm.Workflow("shop")
wf.input("orders", "id bigint, city string, amount double")

report = tm.Flow("report")


@report.task
def large_orders(orders: tm.New) -> tm.Delta:
    """Sees only the orders that came since its last run, and adds what it returns."""
    return orders.where("amount >= 100")


# Sees all large orders, those of the same run included, and replaces what it wrote before.
report.sql("city_totals", "SELECT city, count(*) AS orders, sum(amount) AS total FROM large_orders GROUP BY city")

wf.bind(report)
