"""One-shot workflows: submitting them, their results and usage, and the stored datasets.

An action runs a program that the author of the workflow chose. So only developers may submit; and only admins may pin
datasets, which takes storage from others.
"""

import json
from typing import Annotated

from fastapi import APIRouter, Body, Path, Query

from tidemill.app import serialization
from tidemill.model.timestamps import parse_moment
from tidemill.model.usage import UsagePeriod
from tidemill.retention.usage_history import TimeResolution, UsageSplit
from tidemill.server.dependencies import AS_ADMIN, AS_DEVELOPER, AS_VIEWER, Before, Limit, Mill, Number, TheCaller, Wake
from tidemill.server.error_handlers import build_responses
from tidemill.wire import oneshot_schemas

submissions = APIRouter(tags=["one-shot workflows"])

_TEXT = r"^[^\x00-\x1f\x7f]+$"
Key = Annotated[str, Path(description="The action's id, or its name.", pattern=_TEXT, max_length=200)]


@submissions.post("/submissions", status_code=201, responses=build_responses(400, 409, 413), dependencies=AS_DEVELOPER)
def submit_workflow(
    mill: Mill, wake: Wake, caller: TheCaller, workflow: Annotated[oneshot_schemas.Document, Body()]
) -> oneshot_schemas.SubmissionDocument:
    """Submit a one-shot workflow. Earlier results are reused; servers run the remaining actions."""
    submission = mill.submit_workflow(json.dumps(workflow), caller.name)
    wake()
    return oneshot_schemas.SubmissionDocument.model_validate(submission)


@submissions.get("/submissions", dependencies=AS_VIEWER)
def list_submissions(mill: Mill, before: Before = None, limit: Limit = 20) -> oneshot_schemas.SubmissionListDocument:
    """List submissions, the newest first. The next page begins `before` the last of this one."""
    submissions = mill.catalog.datasets.list_submissions(before=before, limit=limit)
    return oneshot_schemas.SubmissionListDocument.build(submissions=submissions)


@submissions.get("/submissions/{number}", responses=build_responses(404), dependencies=AS_VIEWER)
def get_submission(mill: Mill, number: Number) -> oneshot_schemas.SubmissionDocument:
    """Show a submission with its actions."""
    return oneshot_schemas.SubmissionDocument.model_validate(mill.catalog.datasets.read_submission(number))


@submissions.get("/submissions/{number}/actions/{key}", responses=build_responses(404), dependencies=AS_VIEWER)
def get_action(mill: Mill, number: Number, key: Key) -> oneshot_schemas.ActionDocument:
    """Show an action of a submission, and why it was or was not reused."""
    return oneshot_schemas.ActionDocument.model_validate(mill.oneshot_service.find_action(number, key))


history = APIRouter(tags=["history"])

_WHEN = "A time in UTC like 2026-05-01T12:00, or a duration before now, like '7 days'."
Timestamp = Annotated[str, Query(description=_WHEN, pattern=_TEXT, max_length=100)]
OfUser = Annotated[str | None, Query(description="Only submissions of this user.", pattern=_TEXT, max_length=200)]
OfWorkflow = Annotated[str | None, Query(description="Only of this workflow.", pattern=_TEXT, max_length=200)]
OfTask = Annotated[
    str | None, Query(description="Only this task, or actions of this name.", pattern=_TEXT, max_length=200)
]


@history.get("/history", responses=build_responses(400), dependencies=AS_VIEWER)
def get_history(
    mill: Mill,
    since: Timestamp = "7 days",
    until: Timestamp = "0s",
    by: Annotated[TimeResolution, Query(description="The length of the period of each entry.")] = TimeResolution.DAY,
    per: Annotated[UsageSplit | None, Query(description="Split each entry by this.")] = None,
    user: OfUser = None,
    workflow: OfWorkflow = None,
    task: OfTask = None,
) -> oneshot_schemas.UsageHistoryDocument:
    """Show submissions and refreshes over time: how much was computed, how much reused, and how much that saved."""
    now = mill.catalog.read_time()
    period = UsagePeriod(parse_moment(since, now), parse_moment(until, now), user, workflow, task)
    figures = mill.oneshot_service.compute_usage(period, by, per)
    return oneshot_schemas.UsageHistoryDocument.build(by=by, per=per, figures=figures)


datasets = APIRouter(tags=["datasets"])
DatasetPrefix = Annotated[
    str, Path(description="A prefix of the dataset's identity.", pattern="^[0-9a-f]+$", max_length=200)
]


@datasets.get("/storage", dependencies=AS_VIEWER)
def get_storage(mill: Mill) -> oneshot_schemas.StorageDocument:
    """Show which datasets are stored and why, which the next eviction would delete, and their recomputation cost."""
    return serialization.serialize_storage(mill.oneshot_service.report_storage(), evicted=False)


@datasets.post("/datasets/{dataset}/pin", responses=build_responses(404, 409), dependencies=AS_ADMIN)
def pin_dataset(mill: Mill, dataset: DatasetPrefix) -> oneshot_schemas.DatasetDocument:
    """Protect a dataset from eviction."""
    return oneshot_schemas.DatasetDocument.model_validate(mill.oneshot_service.pin_dataset(dataset))


@datasets.post("/datasets/{dataset}/unpin", responses=build_responses(404, 409), dependencies=AS_ADMIN)
def unpin_dataset(mill: Mill, dataset: DatasetPrefix) -> oneshot_schemas.DatasetDocument:
    """Allow eviction of a pinned dataset when space is short."""
    return oneshot_schemas.DatasetDocument.model_validate(mill.oneshot_service.pin_dataset(dataset, pinned=False))
