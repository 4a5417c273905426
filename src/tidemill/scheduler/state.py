"""How a job stands, as STAFiLOS has it."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    ACTIVE = "active"  # data wait, and the policy lets it run as soon as there is a track
    WAITING = "waiting"  # data wait, and the policy lets it wait for another round
    INACTIVE = "inactive"  # no data wait
    RUNNING = "running"
