"""The policies, and the words for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidemill.schedule.order import Order
from tidemill.schedule.policies.benefit import MaxBenefit
from tidemill.schedule.policies.chance import Chance
from tidemill.schedule.policies.edf import EarliestDeadline
from tidemill.schedule.policies.first_come import FirstCome
from tidemill.schedule.policies.lookahead import LookAhead
from tidemill.schedule.policies.prioritised import PrioritisedDeadline
from tidemill.schedule.policies.quantum import QuantumPriority
from tidemill.schedule.policies.rate import RateBased
from tidemill.schedule.policies.round_robin import RoundRobin

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
