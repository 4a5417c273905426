"""The scheduling policies, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidemill.scheduler.order import SchedulingPolicy
from tidemill.scheduler.policies.basic import (
    EarliestDeadline,
    FirstCome,
    MaxBenefit,
    PrioritisedDeadline,
    RandomPolicy,
    RoundRobin,
)
from tidemill.scheduler.policies.lookahead import LookAhead
from tidemill.scheduler.policies.quantum import QuantumPriority
from tidemill.scheduler.policies.rate import RateBased

POLICIES: Mapping[str, Callable[[], SchedulingPolicy]] = {
    "max-benefit": MaxBenefit,
    "look-ahead": LookAhead,
    "edf": EarliestDeadline,
    "edf-priority": PrioritisedDeadline,
    "quantum": QuantumPriority,
    "rate": RateBased,
    "round-robin": RoundRobin,
    "first-come": FirstCome,
    "random": RandomPolicy,
}
"""Policies that can be named in settings and on the command line; each use creates a separate instance."""
