"""`up` and `work`: servers; and their administration: `servers`, `triggers`, `workflows`, `pause` and `resume`."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from tidemill.app import serialization
from tidemill.cli.formatting import format_age, format_count
from tidemill.cli.lazy_imports import build_listener
from tidemill.cli.options import AsJson, Limit, open_project
from tidemill.cli.output import build_table, show_answer
from tidemill.errors import BadInput
from tidemill.model.timestamps import format_iso
from tidemill.ports.records import RegisteredTrigger, RegisteredWorkflow, TriggerFiring

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill
    from tidemill.runtime.runs.server import ServerLoop

log = logging.getLogger("tidemill.server")

Tracks = Annotated[int | None, typer.Option("--tracks", min=1, help="Concurrent runs; default: as in the settings.")]


def register_commands(app: typer.Typer) -> None:
    for command in (up, work, servers, triggers, workflows, register_workflow, remove, pause, resume, prioritise):
        app.command(command.__name__.removesuffix("_workflow"))(command)


def up(ctx: typer.Context, tracks: Tracks = None) -> None:
    """Apply the project's workflows and serve: fire triggers, execute runs, maintain. Ends on SIGTERM or Ctrl-C."""
    _configure_logging()
    with open_project(ctx) as mill:
        mill.apply()
        loop = mill.loop("up", tracks)
        with _handle_signals(mill, loop), build_listener(mill, loop.wake) as listening, mill.sources(loop.wake):
            log.info("API and page at %s", listening.url)
            _run_server(mill, loop)


def work(ctx: typer.Context, tracks: Tracks = None) -> None:
    """Serve as an additional executor: apply no workflow, and do not listen."""
    _configure_logging()
    with open_project(ctx) as mill:
        loop = mill.loop("work", tracks)
        with _handle_signals(mill, loop):
            _run_server(mill, loop)


def _run_server(mill: Tidemill, loop: ServerLoop) -> None:
    mill.engine.start()
    log.info("%s serves %d tracks", loop.server.name, loop.server.tracks)
    loop.run()


def _configure_logging() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    for name in ("py4j", "uvicorn", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


@contextmanager
def _handle_signals(mill: Tidemill, loop: ServerLoop) -> Iterator[None]:
    """Drain on the first signal; on the second, cancel running work, which other servers then retry."""
    is_draining = False

    def handle_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_draining
        if is_draining:
            mill.executor.abandon_runs()
        is_draining = True
        loop.drain()

    handlers = {number: signal.signal(number, handle_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def servers(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the servers, and which of them is the leader."""
    with open_project(ctx) as mill:
        server_list, now = mill.catalog.list_servers(), mill.catalog.read_time()
    rows = (
        [s.name, s.role, "leader" if s.leader else "", s.state, s.tracks, format_age(s.last_heartbeat, now)]
        for s in server_list
    )
    shown = build_table("", ("server", "role", "", "state", ">tracks", "seen"), rows, empty="no servers")
    show_answer(as_json, {"servers": [serialization.serialize_server(s) for s in server_list]}, shown)


def triggers(ctx: typer.Context, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List the triggers of flows: each condition, when it is due, and its pending data; and the last firings."""
    with open_project(ctx) as mill:
        trigger_list, firings = mill.catalog.list_triggers(), mill.catalog.list_firings(limit=limit)
        now = mill.catalog.read_time()
    document = {
        "triggers": [serialization.serialize_trigger(t) for t in trigger_list],
        "firings": [serialization.serialize_firing(f) for f in firings],
    }
    show_answer(as_json, document, _render_triggers(trigger_list), _render_firings(firings, now))


def _render_triggers(trigger_list: list[RegisteredTrigger]) -> RenderableType:
    rows = (
        [t.flow, str(t.leaf), _format_due(t), format_count(t.rows) if t.since else "", t.missed or ""]
        for t in trigger_list
    )
    return build_table("triggers", ("flow", "condition", "due", ">pending rows", ">missed"), rows)


def _format_due(trigger: RegisteredTrigger) -> str:
    if trigger.paused:
        return "paused"
    if trigger.due is not None:
        return format_iso(trigger.due) or ""
    return "fired, waits for other parts" if trigger.fired is not None else ""


def _render_firings(firings: list[TriggerFiring], now: float) -> RenderableType:
    rows = ([f.flow, str(f.trigger), format_age(f.at, now), f.missed or "", f.run] for f in firings)
    return build_table("firings", ("flow", "trigger", "when", ">missed", ">run"), rows)


def workflows(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the registered workflows."""
    with open_project(ctx) as mill:
        workflow_list, now = mill.catalog.list_workflows(), mill.catalog.read_time()
    rows = ([w.name, "paused" if w.paused else "", w.priority, format_age(w.applied, now)] for w in workflow_list)
    shown = build_table("", ("workflow", "", ">priority", "changed"), rows, empty="no workflows")
    show_answer(as_json, {"workflows": [serialization.serialize_workflow(w) for w in workflow_list]}, shown)


def register_workflow(
    ctx: typer.Context,
    document: Annotated[Path, typer.Argument(help="A JSON file: name, inputs, tables.", exists=True, dir_okay=False)],
    as_json: AsJson = False,
) -> None:
    """Register a workflow of SQL tables from a JSON document instead of a Python file."""
    try:
        data = json.loads(document.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{document} is not JSON: {error}") from error
    with open_project(ctx) as mill:
        steps = mill.register(data)
    rows = ([s.action, s.noun, s.name, s.detail] for s in steps)
    shown = build_table("", ("", "", "name", "detail"), rows, empty="nothing changed")
    show_answer(as_json, {"steps": [serialization.serialize_step(s) for s in steps]}, shown)


def remove(
    ctx: typer.Context,
    workflow: Annotated[str, typer.Argument(help="The workflow's name.")],
    as_json: AsJson = False,
) -> None:
    """Remove a registered workflow; its data are kept."""
    with open_project(ctx) as mill:
        mill.remove(workflow)
    show_answer(as_json, {"removed": workflow}, f"{workflow} is removed; its data are kept")


Named = Annotated[str, typer.Argument(help="The workflow's name.")]


def pause(ctx: typer.Context, workflow: Named, as_json: AsJson = False) -> None:
    """Pause the runs of a workflow; data is still accepted, and is processed after it is resumed."""
    _set_paused(ctx, workflow, as_json, paused=True)


def resume(ctx: typer.Context, workflow: Named, as_json: AsJson = False) -> None:
    """Resume a paused workflow."""
    _set_paused(ctx, workflow, as_json, paused=False)


def prioritise(
    ctx: typer.Context,
    workflow: Named,
    priority: Annotated[int, typer.Argument(help="Runs of workflows with a larger priority go first.")],
    as_json: AsJson = False,
) -> None:
    """Set the priority of a workflow's runs for when not all can run at once."""
    with open_project(ctx) as mill:
        mill.catalog.set_workflow_priority(workflow, priority)
        _show_workflow(mill.catalog.list_workflows(), workflow, as_json)


def _set_paused(ctx: typer.Context, workflow: str, as_json: bool, *, paused: bool) -> None:
    with open_project(ctx) as mill:
        mill.catalog.set_workflow_paused(workflow, paused=paused)
        _show_workflow(mill.catalog.list_workflows(), workflow, as_json)


def _show_workflow(workflow_list: list[RegisteredWorkflow], name: str, as_json: bool) -> None:
    workflow = next(w for w in workflow_list if w.name == name)
    state = "paused" if workflow.paused else "active"
    show_answer(as_json, serialization.serialize_workflow(workflow), f"{name} {state}, priority {workflow.priority}")
