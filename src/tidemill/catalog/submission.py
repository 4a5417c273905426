"""Submitting a one-shot workflow: one transaction decides which actions run, wait or reuse a dataset."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlalchemy import func, insert, select

from tidemill.catalog import dataset_states as store
from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import split_batches
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.tables import actions, datasets, run_inputs, runs, submissions
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import RunKind, RunState
from tidemill.model.states import PRODUCING_STATES, DatasetState
from tidemill.model.submission import ActionRequest, SubmissionRequest
from tidemill.retention.memo import ReuseExplanation, ReuseVerdict, explain_reuse
from tidemill.retention.preparation import Preparation, RunnableAction, merge_actions, prepare_submission

KnownDatasets = Mapping[Identity, AnyRow]
RunIds = Mapping[Identity, int]


def submit_workflow(tx: Transaction, submission_request: SubmissionRequest) -> int:
    """Submit a workflow; returns the submission's number. Raises `Conflict` if its identities are outdated."""
    store.lock_datasets(tx)
    known = store.find_datasets(tx, (request.identity for request in submission_request.actions))
    _check_descriptions(submission_request, known)
    _check_generations(tx, submission_request)
    states = {i: replace(store.to_dataset(row), state=_to_effective_state(row)) for i, row in known.items()}
    plan = prepare_submission(submission_request.actions, states)
    explanations = _explain_actions(tx, submission_request, known, plan)
    run_ids = _add_runs(tx, submission_request, plan)
    _write_datasets(tx, submission_request, known, plan, run_ids)
    _add_needs(tx, plan, run_ids)
    return _add_submission(tx, submission_request, known, explanations, run_ids)


def _check_descriptions(submission: SubmissionRequest, known: KnownDatasets) -> None:
    """Reject hash collisions: datasets with equal identities must have equal descriptions."""
    for request in submission.actions:
        row = known.get(request.identity)
        if row is not None and row.description != request.description:
            raise Conflict(f"another dataset got the identity of action {request.key} meanwhile; submit it again")


def _check_generations(tx: Transaction, submission: SubmissionRequest) -> None:
    newest = read_generations(tx, {action.unforced_identity for action in submission.actions})
    for request in submission.actions:
        if newest.get(request.unforced_identity, 0) + request.forced != request.generation:
            raise Conflict(f"another submission forced the result of action {request.key} meanwhile; submit it again")


def read_generations(tx: Transaction, unforced_identities: Iterable[Identity]) -> dict[Identity, int]:
    """The newest generation of each plain identity that has one."""
    generations: dict[Identity, int] = {}
    for batch in split_batches(unforced_identities):
        newest = select(datasets.c.unforced_identity, func.max(datasets.c.generation).label("newest"))
        rows = tx.execute(newest.where(datasets.c.unforced_identity.in_(batch)).group_by(datasets.c.unforced_identity))
        generations |= {row.unforced_identity: row.newest for row in rows}
    return generations


def _to_effective_state(row: AnyRow) -> DatasetState:
    if row.state == DatasetState.DELETING and row.run_id is not None:
        return DatasetState.TO_LEAF if row.is_leaf else DatasetState.TO_STORE
    state: DatasetState = row.state
    return state


def _explain_actions(
    tx: Transaction, submission: SubmissionRequest, known: KnownDatasets, plan: Preparation
) -> dict[str, ReuseExplanation]:
    needed = {action.identity for action in plan.run} | plan.wait | plan.reuse
    states = {
        identity: _to_effective_state(row)
        for identity, row in known.items()
        if row.computed_at is not None or _to_effective_state(row) in PRODUCING_STATES
    }
    unknown_keys = [request.key for request in submission.actions if request.identity not in states]
    last_descriptions = _read_last_descriptions(tx, submission.workflow) if unknown_keys else {}
    return {
        request.key: explain_reuse(
            request, states.get(request.identity), last_descriptions.get(request.key), needed=request.identity in needed
        )
        for request in submission.actions
    }


def _read_last_descriptions(tx: Transaction, workflow: str) -> dict[str, Json]:
    """For each action of a workflow, the description of its last computed dataset."""
    is_computed = (submissions.c.workflow == workflow, datasets.c.computed_at.is_not(None))
    newest_actions = select(actions.c.key, func.max(actions.c.submission_id).label("newest"))
    newest_actions = newest_actions.join_from(actions, submissions).join(datasets).where(*is_computed)
    latest = newest_actions.group_by(actions.c.key).subquery()
    descriptions = select(actions.c.key, datasets.c.description).join_from(actions, datasets)
    is_latest = (actions.c.key == latest.c.key) & (actions.c.submission_id == latest.c.newest)
    return {row.key: row.description for row in tx.execute(descriptions.join(latest, is_latest))}


def _add_runs(tx: Transaction, submission: SubmissionRequest, plan: Preparation) -> dict[Identity, int]:
    if not plan.run:
        return {}
    requests = merge_actions(submission.actions)
    rows = [_build_run(tx, submission.workflow, requests[action.identity], action) for action in plan.run]
    statement = insert(runs).returning(runs.c.id, sort_by_parameter_order=True)
    run_ids = list(tx.execute(statement, rows).scalars())
    for run_id, row in zip(run_ids, rows, strict=True):
        tx.record_event(EventKind.RUN_REQUESTED, row["subject"], run_id, kind=row["kind"], attempts=row["attempts"])
    return {action.identity: run_id for action, run_id in zip(plan.run, run_ids, strict=True)}


def _build_run(tx: Transaction, workflow: str, request: ActionRequest, action: RunnableAction) -> Json:
    state = RunState.READY if action.is_ready else RunState.WAITING
    subject, attempts = f"{workflow}/{request.name}", request.attempts
    return {"kind": RunKind.ACTION, "subject": subject, "state": state, "attempts": attempts, "created": tx.now}


def _write_datasets(
    tx: Transaction, submission: SubmissionRequest, known: KnownDatasets, plan: Preparation, run_ids: RunIds
) -> None:
    requests = merge_actions(submission.actions)
    new = [request for identity, request in requests.items() if identity not in known]
    if new:
        rows = [
            _build_dataset(tx, submission.workflow, request, plan, run_ids.get(request.identity)) for request in new
        ]
        tx.execute(insert(datasets), rows)
    claims = Counter(i for action in plan.run for i in action.claims)
    for identity, row in known.items():
        _update_dataset(tx, row, requests[identity], plan, claims[identity], run_ids.get(identity))


def _build_dataset(tx: Transaction, workflow: str, request: ActionRequest, plan: Preparation, run: int | None) -> Json:
    names = ("identity", "unforced_identity", "generation", "description", "name", "parents", "is_leaf", "pinned")
    return {name: getattr(request, name) for name in names} | {
        "workflow": workflow,
        "kind": f"{request.kind} {request.name}",
        "state": plan.transitions.get(request.identity, (None, DatasetState.DELETED))[1],
        "run_id": run,
        "created": tx.now,
    }


def _update_dataset(
    tx: Transaction, row: AnyRow, request: ActionRequest, plan: Preparation, claims: int, run: int | None
) -> None:
    before = after = store.to_dataset(row)
    if row.identity in plan.transitions and before.state is not DatasetState.DELETING:
        after = after.transition_to(plan.transitions[row.identity][1])
    for _ in range(claims):
        after = after.add_claim()
    is_used = row.identity in plan.reuse or row.identity in plan.wait
    if after != before or run is not None or is_used:
        # For a recomputed dataset only the current request decides whether it is kept.
        is_leaf = request.is_leaf if run is not None else row.is_leaf or request.is_leaf
        after = replace(after, pinned=row.pinned or request.pinned)
        store.save_dataset(
            tx, row, after, is_leaf=is_leaf, run_id=run if run is not None else row.run_id, used_at=tx.now
        )


def _add_needs(tx: Transaction, plan: Preparation, run_ids: RunIds) -> None:
    rows = [
        {"run_id": run_ids[action.identity], "identity": identity, "claimed": identity in action.claims}
        for action in plan.run
        for identity in sorted(action.awaits | action.claims)
    ]
    if rows:
        tx.execute(insert(run_inputs), rows)


def _add_submission(
    tx: Transaction,
    submission: SubmissionRequest,
    known: KnownDatasets,
    explanations: Mapping[str, ReuseExplanation],
    run_ids: RunIds,
) -> int:
    values = {"workflow": submission.workflow, "user": submission.user, "at": tx.now, "document": submission.document}
    number: int = tx.execute(insert(submissions).values(values).returning(submissions.c.id)).scalar_one()
    rows = [
        {"submission_id": number, "ordinal": ordinal}
        | _build_action(request, explanations[request.key], known.get(request.identity), run_ids.get(request.identity))
        for ordinal, request in enumerate(submission.actions)
    ]
    tx.execute(insert(actions), rows)
    counts = Counter(str(explanation.verdict) for explanation in explanations.values())
    tx.record_event(
        EventKind.SUBMISSION_CREATED, submission.workflow, submission=number, user=submission.user, **counts
    )
    return number


_SAVING_VERDICTS = (ReuseVerdict.REUSED, ReuseVerdict.UNNEEDED)


def _build_action(request: ActionRequest, explanation: ReuseExplanation, row: AnyRow | None, run: int | None) -> Json:
    awaited_run = row.run_id if row is not None and explanation.verdict is ReuseVerdict.AWAITED else None
    return {name: getattr(request, name) for name in ("key", "name", "kind", "identity", "path")} | {
        "verdict": explanation.verdict,
        "reason": str(explanation),
        "saved_seconds": row.seconds if row is not None and explanation.verdict in _SAVING_VERDICTS else 0.0,
        "run_id": run if run is not None else awaited_run,
    }
