"""Sequential aggregate: the last readings of each sensor, summed up each time that another one comes in.

What enters a window is added and what leaves it is taken out, so a long window costs no more than a short one.
"""

import tidemill as tm

wf = tm.Workflow("sequential_aggregate")

wf.input("readings", "sensor string, value bigint")
wf.window("last_three", "readings", "3 tokens", "1 token", by=["sensor"], sums=["value"])
