"""Window expiration: two reports within ten minutes are an alarm; a report that stayed alone is looked at later.

Events that leave the window without having been part of one come out on a channel of their own.
"""

import tidemill as tm

wf = tm.Workflow("window_expiration")

wf.input("reports", "product string, at timestamp")
wf.window("alarms", "reports", "10 minutes", by=["product"], at_least=2, delete_used=True, time="at")


@wf.task
def left_alone(alarms_expired: tm.New) -> tm.Delta:
    return alarms_expired.where("NOT _used").select("product", "at")
