"""Case cancellation: a later event withdraws earlier ones, and all that was made of them, processed or not.

A cancellation is a deletion of the case by its key. What derives from it is declared, so it is taken back as rows
with a negative count: nobody downstream has to know of cancellations.
"""

import tidemill as tm

wf = tm.Workflow("case_cancellation")

wf.input("cases", "number bigint, city string, amount bigint", key="number")
wf.sql("by_city", "SELECT city, count(*) AS cases, sum(amount) AS amount FROM cases GROUP BY city")
wf.sql("large", "SELECT city, amount FROM by_city WHERE amount >= 100")
