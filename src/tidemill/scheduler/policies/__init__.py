"""The scheduling policies, by name."""

from collections.abc import Callable, Mapping

from tidemill.scheduler.order import SchedulingPolicy
from tidemill.scheduler.policies import basic
from tidemill.scheduler.policies.lookahead import LookAhead
from tidemill.scheduler.policies.quantum import QuantumPriority
from tidemill.scheduler.policies.rate import RateBased

POLICIES: Mapping[str, Callable[[], SchedulingPolicy]] = {
    "max-benefit": basic.MaxBenefit,
    "look-ahead": LookAhead,
    "edf": basic.EarliestDeadline,
    "edf-priority": basic.PrioritisedDeadline,
    "quantum": QuantumPriority,
    "rate": RateBased,
    "round-robin": basic.RoundRobin,
    "first-come": basic.FirstCome,
    "random": basic.RandomPolicy,
}
"""Policies that can be named in settings and on the command line; each use creates a separate instance."""
