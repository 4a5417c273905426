"""One-shot workflows: submitting them, and what became of them.

An action runs a program of whoever wrote the workflow. So only admins, who are trusted with the machine, submit.
"""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Body, Path

from tidemill.app import serialization
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.server.dependencies import Before, Limit, Mill, Number, TheCaller, Wake, needs
from tidemill.server.error_handlers import answers
from tidemill.wire import oneshot_schemas

router = APIRouter(tags=["one-shot workflows"])
_VIEWER = [needs(Role.VIEWER)]
_ADMIN = [needs(Role.ADMIN)]

_TEXT = r"^[^\x00-\x1f\x7f]+$"
Key = Annotated[str, Path(description="The action's id, or its name.", pattern=_TEXT, max_length=200)]


@router.post(
    "/submissions",
    status_code=201,
    response_model=oneshot_schemas.Submission,
    responses=answers(400, 409, 413),
    dependencies=_ADMIN,
)
def submit(mill: Mill, wake: Wake, caller: TheCaller, workflow: Annotated[oneshot_schemas.Document, Body()]) -> Json:
    """Submit a one-shot workflow. What was computed before is reused; servers run the rest."""
    made = mill.workshop.submit(json.dumps(workflow), caller.name)
    wake()
    return serialization.submission(made)


@router.get("/submissions", response_model=oneshot_schemas.Submissions, dependencies=_VIEWER)
def submissions(mill: Mill, before: Before = None, limit: Limit = 20) -> Json:
    """List submissions, the newest first. The next page begins `before` the last of this one."""
    found = mill.workshop.ledger.submissions(before=before, limit=limit)
    return {"submissions": [serialization.submission(s) for s in found]}


@router.get(
    "/submissions/{number}", response_model=oneshot_schemas.Submission, responses=answers(404), dependencies=_VIEWER
)
def submission(mill: Mill, number: Number) -> Json:
    """Show a submission with its actions."""
    return serialization.submission(mill.workshop.ledger.submission(number))


@router.get(
    "/submissions/{number}/actions/{key}",
    response_model=oneshot_schemas.Action,
    responses=answers(404),
    dependencies=_VIEWER,
)
def action(mill: Mill, number: Number, key: Key) -> Json:
    """Show an action of a submission, and why it was or was not reused."""
    return serialization.submitted_action(mill.workshop.action(number, key))
