"""Submitting a one-shot workflow: what must run, what is reused and what is waited for, decided in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlalchemy import func, insert, select

from tidemill.catalog import datasets as store
from tidemill.catalog.events import EventKind
from tidemill.catalog.oneshot_tables import actions, datasets, needs, submissions
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.tables import runs
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import RunKind, RunState
from tidemill.model.states import PRODUCED, Dataset, DatasetState
from tidemill.model.submission import ActionRequest, SubmissionRequest
from tidemill.retention.memo import ReuseExplanation, ReuseVerdict, explain_reuse
from tidemill.retention.preparation import Preparation, RequestedAction, RunnableAction, prepare_submission

Known = Mapping[Identity, AnyRow]
Numbers = Mapping[Identity, int]


def submit_workflow(tx: Transaction, handed: SubmissionRequest) -> int:
    """Take in a workflow; returns the number of the submission. Raises `Conflict` if its names are outdated."""
    store.lock_datasets(tx)
    known = store.find_datasets(tx, (w.identity for w in handed.wishes))
    _check_descriptions(handed, known)
    _check_generations(tx, handed)
    plan = prepare_submission(
        [RequestedAction(w.identity, w.parents, w.keep, w.pinned) for w in handed.wishes], _build_states(known)
    )
    explained = _explain_actions(tx, handed, known, plan)
    made_by = _add_runs(tx, handed, plan)
    _write_datasets(tx, handed, known, plan, made_by)
    _add_needs(tx, plan, made_by)
    return _add_submission(tx, handed, known, explained, made_by)


def _check_descriptions(handed: SubmissionRequest, known: Known) -> None:
    """The second step: equal identities mean nothing unless the descriptions are equal."""
    for wish in handed.wishes:
        row = known.get(wish.identity)
        if row is not None and row.description != wish.description:
            raise Conflict(f"another dataset got the identity of action {wish.key} meanwhile; name them again")


def _check_generations(tx: Transaction, handed: SubmissionRequest) -> None:
    newest = read_generations(tx, {w.plain for w in handed.wishes})
    for wish in handed.wishes:
        if newest.get(wish.plain, 0) + wish.forced != wish.generation:
            raise Conflict(f"the result of action {wish.key} was forced by somebody meanwhile; name them again")


def read_generations(tx: Transaction, plain: Iterable[Identity]) -> dict[Identity, int]:
    """The newest generation of each plain identity that has one."""
    found: dict[Identity, int] = {}
    for part in store.split_identities(plain):
        newest = select(datasets.c.plain, func.max(datasets.c.generation).label("newest"))
        rows = tx.connection.execute(newest.where(datasets.c.plain.in_(part)).group_by(datasets.c.plain))
        found |= {row.plain: row.newest for row in rows}
    return found


def _build_states(known: Known) -> dict[Identity, Dataset]:
    """What is being deleted, and will be made again after that by a run that waits, is as good as being made."""
    return {i: Dataset(_to_effective_state(row), row.version, row.claims, row.pinned) for i, row in known.items()}


def _to_effective_state(row: AnyRow) -> DatasetState:
    if row.state == DatasetState.DELETING and row.run_id is not None:
        return DatasetState.TO_LEAF if row.keep else DatasetState.TO_STORE
    return DatasetState(row.state)


def _explain_actions(
    tx: Transaction, handed: SubmissionRequest, known: Known, plan: Preparation
) -> dict[str, ReuseExplanation]:
    needed = {r.identity for r in plan.run} | plan.wait | plan.reuse
    states = {
        i: _to_effective_state(row)
        for i, row in known.items()
        if row.made is not None or _to_effective_state(row) in PRODUCED
    }
    unknown = [w.key for w in handed.wishes if w.identity not in states]
    last = _read_last_descriptions(tx, handed.workflow) if unknown else {}
    return {
        w.key: explain_reuse(w, states.get(w.identity), last.get(w.key), needed=w.identity in needed)
        for w in handed.wishes
    }


def _read_last_descriptions(tx: Transaction, workflow: str) -> dict[str, Json]:
    """For each action of a workflow, the description of what it last made."""
    made = (submissions.c.workflow == workflow, datasets.c.made.is_not(None))
    of_workflow = select(actions.c.key, func.max(actions.c.submission_id).label("newest"))
    of_workflow = of_workflow.join_from(actions, submissions).join(datasets).where(*made)
    latest = of_workflow.group_by(actions.c.key).subquery()
    found = select(actions.c.key, datasets.c.description).join_from(actions, datasets)
    same = (actions.c.key == latest.c.key) & (actions.c.submission_id == latest.c.newest)
    return {row.key: row.description for row in tx.connection.execute(found.join(latest, same))}


def _add_runs(tx: Transaction, handed: SubmissionRequest, plan: Preparation) -> dict[Identity, int]:
    if not plan.run:
        return {}
    wishes = _merge_by_identity(handed.wishes)
    rows = [_build_run(tx, handed.workflow, wishes[r.identity], r) for r in plan.run]
    adding = insert(runs).returning(runs.c.id, sort_by_parameter_order=True)
    numbers = list(tx.connection.execute(adding, rows).scalars())
    for number, row in zip(numbers, rows, strict=True):
        tx.record_event(EventKind.RUN_REQUESTED, row["subject"], number, kind=row["kind"], attempts=row["attempts"])
    return {r.identity: number for r, number in zip(plan.run, numbers, strict=True)}


def _build_run(tx: Transaction, workflow: str, wish: ActionRequest, running: RunnableAction) -> Json:
    return {
        "kind": RunKind.ACTION,
        "subject": f"{workflow}/{wish.name}",
        "state": RunState.READY if running.is_ready else RunState.WAITING,
        "attempts": wish.attempts,
        "created": tx.now,
    }


def _write_datasets(
    tx: Transaction, handed: SubmissionRequest, known: Known, plan: Preparation, made_by: Numbers
) -> None:
    wishes = _merge_by_identity(handed.wishes)
    new = [wish for identity, wish in wishes.items() if identity not in known]
    if new:
        rows = [_build_dataset(tx, handed.workflow, w, plan, made_by.get(w.identity)) for w in new]
        tx.connection.execute(insert(datasets), rows)
    claims = Counter(i for r in plan.run for i in r.claims)
    for identity, row in known.items():
        _update_dataset(tx, row, wishes[identity], plan, claims[identity], made_by.get(identity))


def _merge_by_identity(wishes: Iterable[ActionRequest]) -> dict[Identity, ActionRequest]:
    """One wish for each dataset, kept or pinned if one of those for it is."""
    merged: dict[Identity, ActionRequest] = {}
    for wish in wishes:
        first = merged.get(wish.identity, wish)
        merged[wish.identity] = replace(first, keep=first.keep or wish.keep, pinned=first.pinned or wish.pinned)
    return merged


def _build_dataset(tx: Transaction, workflow: str, wish: ActionRequest, plan: Preparation, run: int | None) -> Json:
    return {
        "identity": wish.identity,
        "plain": wish.plain,
        "generation": wish.generation,
        "description": wish.description,
        "workflow": workflow,
        "name": wish.name,
        "kind": f"{wish.kind} {wish.name}",
        "parents": list(wish.parents),
        "state": plan.moves[wish.identity][1] if wish.identity in plan.moves else DatasetState.DELETED,
        "keep": wish.keep,
        "pinned": wish.pinned,
        "run_id": run,
        "created": tx.now,
    }


def _update_dataset(
    tx: Transaction, row: AnyRow, wish: ActionRequest, plan: Preparation, claims: int, run: int | None
) -> None:
    before = after = store.to_dataset(row)
    if row.identity in plan.moves and before.state is not DatasetState.DELETING:
        after = after.transition_to(plan.moves[row.identity][1])
    for _ in range(claims):
        after = after.add_claim()
    touched = row.identity in plan.reuse or row.identity in plan.wait
    if after != before or run is not None or touched:
        # What was made in vain is made anew: as what, those say who want it now.
        kept = wish.keep if run is not None else row.keep or wish.keep
        after = replace(after, pinned=row.pinned or wish.pinned)
        store.save_dataset(tx, row, after, keep=kept, run_id=run if run is not None else row.run_id, used=tx.now)


def _add_needs(tx: Transaction, plan: Preparation, made_by: Numbers) -> None:
    rows = [
        {"run_id": made_by[r.identity], "identity": i, "claimed": i in r.claims}
        for r in plan.run
        for i in sorted(r.awaits | r.claims)
    ]
    if rows:
        tx.connection.execute(insert(needs), rows)


def _add_submission(
    tx: Transaction,
    handed: SubmissionRequest,
    known: Known,
    explained: Mapping[str, ReuseExplanation],
    made_by: Numbers,
) -> int:
    new = {"workflow": handed.workflow, "user": handed.user, "at": tx.now, "document": handed.document}
    number: int = tx.connection.execute(insert(submissions).values(new).returning(submissions.c.id)).scalar_one()
    rows = [
        _build_action(number, at, wish, explained[wish.key], known.get(wish.identity), made_by.get(wish.identity))
        for at, wish in enumerate(handed.wishes)
    ]
    tx.connection.execute(insert(actions), rows)
    counts = Counter(str(e.verdict) for e in explained.values())
    tx.record_event(EventKind.SUBMISSION_MADE, handed.workflow, submission=number, user=handed.user, **counts)
    return number


_SPARED = (ReuseVerdict.REUSED, ReuseVerdict.UNNEEDED)


def _build_action(
    submission: int, ordinal: int, wish: ActionRequest, explained: ReuseExplanation, row: AnyRow | None, run: int | None
) -> Json:
    awaited = row.run_id if row is not None and explained.verdict is ReuseVerdict.AWAITED else None
    return {
        "submission_id": submission,
        "key": wish.key,
        "ordinal": ordinal,
        "name": wish.name,
        "kind": wish.kind,
        "identity": wish.identity,
        "verdict": explained.verdict,
        "why": str(explained),
        "saved": row.seconds if row is not None and explained.verdict in _SPARED else 0.0,
        "path": wish.path,
        "run_id": run if run is not None else awaited,
    }
