"""Asking for runs that servers execute."""

from __future__ import annotations

from tidemill.errors import Conflict
from tidemill.model.run import LOST, Run, RunKind, RunState
from tidemill.ports import CatalogWriter

_AGAIN = (RunState.FAILED, RunState.KILLED)


def ask(catalog: CatalogWriter, flow: str) -> Run:
    """A new run of a flow, with the attempts that its tasks allow, and some for servers that die."""
    allowed = next((b.spec.get("attempts", 1) for b in catalog.bindings() if b.name == flow), 1)
    return catalog.request(RunKind.FLOW, flow, attempts=allowed + LOST)


def ask_again(catalog: CatalogWriter, run: int) -> Run:
    """A new run in place of one that came to nothing."""
    before = catalog.run(run)
    if before.kind is not RunKind.FLOW:
        raise Conflict(f"run {run} is no run of a flow but one of kind {before.kind}; do again what asked for it")
    if before.state not in _AGAIN:
        raise Conflict(f"run {run} is {before.state}; only a failed or killed one can be tried again")
    return ask(catalog, before.subject)
