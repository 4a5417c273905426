"""Asking for runs that servers execute."""

from __future__ import annotations

from tidemill.errors import Conflict, NotFound
from tidemill.model.run import TO_COME, Run, RunKind, RunState
from tidemill.ports.catalog import CatalogReader, CatalogWriter

_AGAIN = (RunState.FAILED, RunState.KILLED)


def request_flow_run(catalog: CatalogWriter, flow: str, *, backfill: bool = False) -> Run:
    """A run of a flow, with the attempts that its tasks allow.

    One that waits already will see all there is: there is no need for another. A backfill computes declared tables
    anew and takes all that waits for other tasks, on a track that live tables never wait for.
    """
    binding = next((b for b in catalog.list_bindings() if b.name == flow), None)
    if binding is None:
        raise NotFound(f"no bound flow {flow!r} is registered; the status names those that are")
    to_come = (r for r in catalog.list_runs(subject=flow) if r.kind is RunKind.FLOW and r.state in TO_COME)
    waiting = [r for r in to_come if r.backfill is backfill]
    if waiting:
        return waiting[-1]
    attempts = int(binding.spec.get("attempts", 1))
    return catalog.request_run(RunKind.FLOW, flow, attempts=attempts, backfill=backfill)


def request_retry(catalog: CatalogWriter, run: int) -> Run:
    """A new run in place of one that came to nothing."""
    before = catalog.read_run(run)
    if before.kind is not RunKind.FLOW:
        raise Conflict(f"run {run} is no run of a flow but one of kind {before.kind}; do again what asked for it")
    if before.state not in _AGAIN:
        raise Conflict(f"run {run} is {before.state}; only a failed or killed one can be tried again")
    return request_flow_run(catalog, before.subject, backfill=before.backfill)


def find_run_workflow(catalog: CatalogReader, run: int) -> str | None:
    """The workflow in which a run is, if it is still registered; that of an action never is."""
    found = catalog.read_run(run)
    if found.kind is RunKind.ACTION:
        return None
    if found.kind is RunKind.FLOW:
        return find_flow_workflow(catalog, found.subject)
    return catalog.read_channel(found.subject).workflow


def find_flow_workflow(catalog: CatalogReader, flow: str) -> str | None:
    return next((b.workflow for b in catalog.list_bindings() if b.name == flow), None)
