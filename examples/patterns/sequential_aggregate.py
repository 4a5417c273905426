"""Sequential aggregate: the sum of the last readings of each sensor, updated with each new reading.

Readings that enter the window are added and readings that leave it are subtracted, so that a long window costs no more
than a short one.
"""

import tidemill as tm

wf = tm.Workflow("sequential_aggregate")

wf.input("readings", "sensor string, value bigint")
wf.window("last_three", "readings", "3 tokens", "1 token", by=["sensor"], sums=["value"])
