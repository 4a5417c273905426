"""Requests for runs that servers execute."""

from tidemill.errors import Conflict, NotFound
from tidemill.model.run import PENDING_STATES, Run, RunKind, RunState
from tidemill.ports.catalog import Catalog, CatalogReader, FlowQueries

_RETRYABLE = (RunState.FAILED, RunState.KILLED)


def request_flow_run(catalog: Catalog, flow: str, *, backfill: bool = False) -> Run:
    """Request a run of a flow, with the attempts that its tasks allow.

    A waiting run of the flow is returned instead, because it will read all pending data. A backfill recomputes declared
    tables and reads all pending data of other tasks, on a track that live tables do not wait for.
    """
    binding = next((b for b in catalog.flows.list() if b.name == flow), None)
    if binding is None:
        raise NotFound(f"no bound flow {flow!r} is registered; the status lists the registered ones")
    queued = (r for r in catalog.runs.list(subject=flow) if r.kind is RunKind.FLOW and r.state in PENDING_STATES)
    same_kind = [r for r in queued if r.backfill is backfill]
    if same_kind:
        return same_kind[-1]
    return catalog.runs.request(RunKind.FLOW, flow, attempts=binding.attempts, backfill=backfill)


def request_retry(catalog: Catalog, run: int) -> Run:
    """Request a new run in place of a failed or killed one."""
    before = catalog.runs.read(run)
    if before.kind is not RunKind.FLOW:
        raise Conflict(f"run {run} is not a run of a flow but of kind {before.kind}; repeat its original request")
    if before.state not in _RETRYABLE:
        raise Conflict(f"run {run} is {before.state}; only a failed or killed one can be retried")
    return request_flow_run(catalog, before.subject, backfill=before.backfill)


def find_run_workflow(catalog: CatalogReader, run: int) -> str | None:
    """Return the workflow of a run, if it is still registered; an action has none."""
    record = catalog.runs.read(run)
    if record.kind is RunKind.ACTION:
        return None
    if record.kind is RunKind.FLOW:
        return find_flow_workflow(catalog.flows, record.subject)
    return catalog.channels.read(record.subject).workflow


def find_flow_workflow(flows: FlowQueries, flow: str) -> str | None:
    return next((b.workflow for b in flows.list() if b.name == flow), None)
