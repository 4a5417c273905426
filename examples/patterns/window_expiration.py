"""Window expiration: two reports within ten minutes raise an alarm; single reports are collected for later review.

Events that leave the window without having been part of a match appear on a separate channel.
"""

import tidemill as tm

wf = tm.Workflow("window_expiration")

wf.input("reports", "product string, at timestamp")
wf.window("alarms", "reports", "10 minutes", by=["product"], at_least=2, delete_used=True, time="at")


@wf.task
def left_alone(alarms_expired: tm.New) -> tm.Delta:
    return alarms_expired.where("NOT _used").select("product", "at")
