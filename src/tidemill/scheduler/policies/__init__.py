"""The policies, and the words for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidemill.scheduler.order import Order
from tidemill.scheduler.policies.benefit import MaxBenefit
from tidemill.scheduler.policies.chance import Chance
from tidemill.scheduler.policies.edf import EarliestDeadline
from tidemill.scheduler.policies.first_come import FirstCome
from tidemill.scheduler.policies.lookahead import LookAhead
from tidemill.scheduler.policies.prioritised import PrioritisedDeadline
from tidemill.scheduler.policies.quantum import QuantumPriority
from tidemill.scheduler.policies.rate import RateBased
from tidemill.scheduler.policies.round_robin import RoundRobin

POLICIES: Mapping[str, Callable[[], Order]] = {
    "max-benefit": MaxBenefit,
    "look-ahead": LookAhead,
    "edf": EarliestDeadline,
    "edf-priority": PrioritisedDeadline,
    "quantum": QuantumPriority,
    "rate": RateBased,
    "round-robin": RoundRobin,
    "first-come": FirstCome,
    "random": Chance,
}
"""Those that can be named in settings and on the command line; each use makes one of its own."""
