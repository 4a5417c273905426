"""How much work fits into an allowance of time."""

from __future__ import annotations

from tidemill.scheduler.job import Job


def within(job: Job, allowance: float) -> int:
    """How many of the waiting batches use the allowance up; all, if they do not; one in any case.

    The last of them may go beyond it: a batch is never split, and what is overdrawn is paid for later.
    """
    cost, fresh = job.profile.cost, job.fresh
    for i, (_, upto) in enumerate(job.batches, start=1):
        if cost(upto - fresh) >= allowance:
            return i
    return len(job.batches)
