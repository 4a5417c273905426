"""The viewer of a page."""

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
    """The viewer of a page, and the viewer's permissions.

    Access to the page itself was checked before: without it, no page is served.
    """

    name: str = ""
    can_act_somewhere: bool = True  # may run, kill, pause and resume, in at least some workflows
    check_permission: Callable[[str | None], None] = (
        _permit_everything  # raises if the viewer may not act in a workflow
    )
    record_action: Callable[[str], AbstractContextManager[None]] = (
        _record_nothing  # records the action in the audit log
    )

    def can_act(self, workflow: str | None) -> bool:
        """Whether the viewer may act in a workflow; None: on objects that belong to none."""
        try:
            self.check_permission(workflow)
        except Forbidden:
            return False
        return True


ViewerIdentifier = Callable[[Request], Viewer]
"""Identifies the sender of a request. It is called again before every action, because permissions may have changed."""


def accept_anyone(_request: Request) -> Viewer:
    """Without access control, all viewers may do everything."""
    return Viewer()
