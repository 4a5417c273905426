"""Who looks at the page."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from fastapi import Request

from tidemill.wire.refusals import Forbidden


def _permit_everything(_workflow: str | None) -> None:
    pass


def _record_nothing(_action: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Viewer:
    """Whoever looks at the page, and what they may do there.

    That they may look at all was decided before: who may not gets no page.
    """

    name: str = ""
    acts: bool = True  # may run, kill, pause and resume, if not everywhere
    permit: Callable[[str | None], None] = _permit_everything  # raises if they may not act in a workflow
    recorded: Callable[[str], AbstractContextManager[None]] = (
        _record_nothing  # writes down what is done while it is entered
    )

    def can_act(self, workflow: str | None) -> bool:
        """May they act in a workflow; None: in what is in none?"""
        try:
            self.permit(workflow)
        except Forbidden:
            return False
        return True


Who = Callable[[Request], Viewer]
"""Says who sent a request. It is asked again before every action, since rights may have been taken away meanwhile."""


def accept_anyone(_request: Request) -> Viewer:
    """Where nobody is told from anybody, all may do everything."""
    return Viewer()
