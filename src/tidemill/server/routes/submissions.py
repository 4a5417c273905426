"""One-shot workflows: submitting them, and their results.

An action runs a program that the author of the workflow chose. So only admins, who are trusted with the machine, may
submit.
"""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Body, Path

from tidemill.server.dependencies import AS_ADMIN, AS_VIEWER, Before, Limit, Mill, Number, TheCaller, Wake
from tidemill.server.error_handlers import build_responses
from tidemill.wire import oneshot_schemas

router = APIRouter(tags=["one-shot workflows"])

_TEXT = r"^[^\x00-\x1f\x7f]+$"
Key = Annotated[str, Path(description="The action's id, or its name.", pattern=_TEXT, max_length=200)]


@router.post("/submissions", status_code=201, responses=build_responses(400, 409, 413), dependencies=AS_ADMIN)
def submit_workflow(
    mill: Mill, wake: Wake, caller: TheCaller, workflow: Annotated[oneshot_schemas.Document, Body()]
) -> oneshot_schemas.SubmissionDocument:
    """Submit a one-shot workflow. Earlier results are reused; servers run the remaining actions."""
    submission = mill.oneshot_service.submit_workflow(json.dumps(workflow), caller.name)
    wake()
    return oneshot_schemas.SubmissionDocument.model_validate(submission)


@router.get("/submissions", dependencies=AS_VIEWER)
def list_submissions(mill: Mill, before: Before = None, limit: Limit = 20) -> oneshot_schemas.SubmissionListDocument:
    """List submissions, the newest first. The next page begins `before` the last of this one."""
    submissions = mill.oneshot_service.dataset_catalog.list_submissions(before=before, limit=limit)
    return oneshot_schemas.SubmissionListDocument.build(submissions=submissions)


@router.get("/submissions/{number}", responses=build_responses(404), dependencies=AS_VIEWER)
def get_submission(mill: Mill, number: Number) -> oneshot_schemas.SubmissionDocument:
    """Show a submission with its actions."""
    return oneshot_schemas.SubmissionDocument.model_validate(
        mill.oneshot_service.dataset_catalog.read_submission(number)
    )


@router.get("/submissions/{number}/actions/{key}", responses=build_responses(404), dependencies=AS_VIEWER)
def get_action(mill: Mill, number: Number, key: Key) -> oneshot_schemas.ActionDocument:
    """Show an action of a submission, and why it was or was not reused."""
    return oneshot_schemas.ActionDocument.model_validate(mill.oneshot_service.find_action(number, key))
