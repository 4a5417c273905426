"""`up` and `work`: servers; and the administration of servers, triggers, workflows and the order of runs."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.app import inspection
from tidemill.app.log_format import configure_logging
from tidemill.cli import lazy_imports, tables
from tidemill.cli.command import Limit, Tidemill, audit_command, find_start
from tidemill.cli.output import Answer, build_fields, render_list
from tidemill.display import columns
from tidemill.errors import BadInput
from tidemill.runtime.inspect.statistics import compute_statistics
from tidemill.runtime.inspect.status import read_status
from tidemill.wire import server_schemas
from tidemill.wire.command_schemas import TriggersDocument

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill
    from tidemill.runtime.runs.server import ServerLoop

log = logging.getLogger("tidemill.server")

Tracks = Annotated[int | None, typer.Option("--tracks", min=1, help="Concurrent runs; default: as in the settings.")]


def up(ctx: typer.Context, tracks: Tracks = None) -> None:
    """Apply the project's workflows and serve: fire triggers, execute runs, maintain. Ends on SIGTERM or Ctrl-C."""
    with lazy_imports.IsolatedTidemill.open_server(find_start(ctx), tracks) as mill:
        configure_logging(mill.redactor)
        loop = lazy_imports.build_server_loop(mill, "up")
        with _handle_signals(mill, loop), lazy_imports.build_listener(mill, loop.wake) as listening:
            log.info("API and page at %s", listening.url)
            mill.engine.start()
            with audit_command(mill, ctx.command_path, {}):
                mill.apply()
            with lazy_imports.start_sources(mill, loop.wake):
                _run_server(loop)


def work(ctx: typer.Context, tracks: Tracks = None) -> None:
    """Serve as an additional executor: apply no workflow, and do not listen."""
    with lazy_imports.IsolatedTidemill.open_server(find_start(ctx), tracks) as mill:
        configure_logging(mill.redactor)
        loop = lazy_imports.build_server_loop(mill, "work")
        with _handle_signals(mill, loop):
            mill.engine.start()
            _run_server(loop)


def _run_server(loop: ServerLoop) -> None:
    log.info("%s serves %d tracks", loop.server.name, loop.server.tracks)
    loop.run()


@contextmanager
def _handle_signals(mill: Tidemill, loop: ServerLoop) -> Iterator[None]:
    """Drain on the first signal; on the second, cancel running work, which other servers then retry.

    Before the loop runs there is nothing to drain: the first signal ends the start, which may wait long for Spark.
    """
    is_draining = False

    def handle_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_draining
        was_draining, is_draining = is_draining, True
        if was_draining:
            mill.abandon_runs()
        elif not loop.has_started:
            log.info("stopped before the first run")
            raise SystemExit
        loop.drain()

    handlers = {number: signal.signal(number, handle_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def servers(mill: Tidemill) -> Answer:
    """List the servers, and which of them is the leader."""
    server_list, now = mill.catalog.servers.list(), mill.catalog.read_time()
    shown = render_list("", columns.SERVER, server_list, now, empty="no servers")
    return Answer(server_schemas.ServerListDocument.build(servers=server_list), shown)


def triggers(mill: Tidemill, limit: Limit = 20) -> Answer:
    """List the triggers of flows: each condition, when it is due, and its pending data; and the last firings."""
    trigger_list, firings = mill.catalog.triggers.list(), mill.catalog.triggers.list_firings(limit=limit)
    now = mill.catalog.read_time()
    document = TriggersDocument.build(triggers=trigger_list, firings=firings)
    return Answer(
        document,
        render_list("triggers", columns.TRIGGER, trigger_list, now),
        render_list("firings", columns.FIRING, firings, now),
    )


def workflows(mill: Tidemill) -> Answer:
    """List the registered workflows."""
    workflow_list, now = mill.catalog.workflows.list(), mill.catalog.read_time()
    shown = render_list("", columns.WORKFLOW, workflow_list, now, empty="no workflows")
    return Answer(server_schemas.WorkflowListDocument.build(workflows=workflow_list), shown)


def register(
    mill: Tidemill,
    document: Annotated[Path, typer.Argument(help="A JSON file: name, inputs, tables.", exists=True, dir_okay=False)],
) -> Answer:
    """Register a workflow of SQL tables from a JSON document instead of a Python file."""
    try:
        data = json.loads(document.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{document} is not JSON: {error}") from error
    steps = mill.register(data)
    return Answer(server_schemas.RegistrationStepsDocument.build(steps=steps), tables.render_steps(steps))


Named = Annotated[str, typer.Argument(help="The workflow's name.")]


def remove(mill: Tidemill, workflow: Named) -> Answer:
    """Remove a registered workflow; its data are kept."""
    mill.remove(workflow)
    return Answer({"removed": workflow}, f"{workflow} is removed; its data are kept")


def pause(mill: Tidemill, workflow: Named) -> Answer:
    """Pause the runs of a workflow; data is still accepted, and is processed after it is resumed."""
    mill.catalog.workflows.set_paused(workflow, paused=True)
    return _show_workflow(mill, workflow)


def resume(mill: Tidemill, workflow: Named) -> Answer:
    """Resume a paused workflow."""
    mill.catalog.workflows.set_paused(workflow, paused=False)
    return _show_workflow(mill, workflow)


def prioritise(
    mill: Tidemill,
    workflow: Named,
    priority: Annotated[int, typer.Argument(help="Runs of workflows with a larger priority go first.")],
) -> Answer:
    """Set the priority of a workflow's runs for when not all can run at once."""
    mill.catalog.workflows.set_priority(workflow, priority)
    return _show_workflow(mill, workflow)


def _show_workflow(mill: Tidemill, name: str) -> Answer:
    workflow = inspection.find_workflow(mill.catalog.workflows, name)
    state = "paused" if workflow.paused else "active"
    document = server_schemas.WorkflowDocument.model_validate(workflow)
    return Answer(document, f"{name} {state}, priority {workflow.priority}")


def dispatching(
    mill: Tidemill,
    policy: Annotated[str | None, typer.Option(help="The scheduling policy: max-benefit, edf, first-come, …")] = None,
    placement: Annotated[str | None, typer.Option(help="On which tracks: proportional, partitioned, single, …")] = None,
    inheritance: Annotated[str | None, typer.Option(help="Priority of sources: none, sum, max, max-plus.")] = None,
    tracks: Annotated[int | None, typer.Option(min=1, max=64, help="Concurrent runs, on each server.")] = None,
    backfill_tracks: Annotated[
        int | None, typer.Option(min=1, max=64, help="Concurrent backfills, on each server.")
    ] = None,
    catch_up_limit: Annotated[
        float | None, typer.Option(min=0, help="Periods of data that a run loads at most; 0 for all pending data.")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Return to each server's settings.")] = False,
) -> Answer:
    """Show the order in which servers start runs, or change it while they run; it takes effect within seconds."""
    options = {
        "policy": policy,
        "placement": placement,
        "inheritance": inheritance,
        "tracks": tracks,
        "backfill_tracks": backfill_tracks,
        "catch_up_limit": catch_up_limit,
    }
    changes = {name: value for name, value in options.items() if value is not None}
    current = mill.dispatch_config.select_overrides(mill.catalog.servers.read_setting_overrides())
    overrides = {} if reset else {**current, **changes}
    config = mill.dispatch_config.apply_overrides(overrides)
    if reset or changes:
        mill.catalog.servers.override_settings(dict.fromkeys(options) | overrides)
    document = server_schemas.DispatchConfigDocument.build(**asdict(config), overrides=overrides)
    return Answer(document, build_fields([(name.replace("_", " "), str(v)) for name, v in asdict(config).items()]))


def statistics(mill: Tidemill) -> Answer:
    """Show for each task the cost of a run, its selectivity, its rates, and its pending blocks."""
    task_statistics = compute_statistics(mill.catalog, read_status(mill.catalog))
    shown = render_list("tasks", tables.STATISTICS, task_statistics, empty=tables.UNREGISTERED)
    return Answer(server_schemas.StatisticsDocument.build(tasks=task_statistics), shown)
