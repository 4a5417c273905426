"""Case cancellation: a later event withdraws an earlier one and everything derived from it, processed or not.

A cancellation deletes the case by its key. The derived tables are declared as queries, so the deletion reaches them as
rows with a negative count: no downstream task has to handle cancellations.
"""

import tidemill as tm

wf = tm.Workflow("case_cancellation")

wf.input("cases", "number bigint, city string, amount bigint", key="number")
wf.sql("by_city", "SELECT city, count(*) AS cases, sum(amount) AS amount FROM cases GROUP BY city")
wf.sql("large", "SELECT city, amount FROM by_city WHERE amount >= 100")
