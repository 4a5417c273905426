"""Who looks at the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request


@dataclass(frozen=True, slots=True)
class Viewer:
    """Whoever looks at the page, and what they may do there.

    That they may look at all was decided before: who may not gets no page.
    """

    name: str = ""
    may_run: bool = True
    may_kill: bool = True
    may_pause: bool = True  # and resume


Who = Callable[[Request], Viewer]
"""Says who sent a request. It is asked again before every action, since rights may have been taken away meanwhile."""


def anyone(_request: Request) -> Viewer:
    """Where nobody is told from anybody, all may do everything."""
    return Viewer()
