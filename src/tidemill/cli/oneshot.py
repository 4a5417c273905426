"""`submit`, `submissions`, `history`, `storage`, `pin`, `unpin`: one-shot workflows, their usage and datasets."""

import getpass
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from tidemill.app import inspection, serialization
from tidemill.cli import tables
from tidemill.cli.command import Limit, Tidemill
from tidemill.cli.output import NONE, Answer, ProgressBar, build_console, render_list
from tidemill.display import columns
from tidemill.display.formatting import format_age, format_plural, take_first_line
from tidemill.display.table import Column, link_run, show_state
from tidemill.errors import BadInput, EvictionFailed, translate_value_error
from tidemill.model.run import RunState
from tidemill.model.submission import Submission, SubmittedAction
from tidemill.model.timestamps import parse_moment
from tidemill.model.units import format_size, format_span, parse_size
from tidemill.model.usage import UsagePeriod
from tidemill.retention.usage_history import TimeResolution, UsageSplit
from tidemill.runtime.oneshot.storage_report import StorageReport
from tidemill.wire import oneshot_schemas as schemas


def submit(
    mill: Tidemill,
    workflow: Annotated[Path, typer.Argument(help="A one-shot workflow in JSON.", exists=True, dir_okay=False)],
    watch: Annotated[bool, typer.Option("--watch", help="Run ready actions here too, and wait for the end.")] = False,
) -> Answer:
    """Submit a one-shot workflow. Results of earlier computations are reused; servers run the rest, or --watch does."""
    submission = mill.submit_workflow(_read_text(workflow), getpass.getuser())
    if watch:
        with ProgressBar(build_console(sys.stderr)) as bar:

            def show_progress(state: Submission) -> None:
                bar(state.workflow, sum(a.state is RunState.FINISHED for a in state.actions) / len(state.actions))

            submission = mill.oneshot_service.complete_submission(submission.id, show_progress)
    return _show_submission(submission, mill.catalog.read_time())


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}") from error


def _format_submission(submission: Submission) -> str:
    total, computed = format_plural(len(submission.actions), "action"), len(_list_computed(submission))
    result = f"{total}, {computed} computed, {_format_savings(submission)} saved"
    return f"submission {submission.id} {submission.state}: {result}"


def submissions(
    mill: Tidemill,
    number: Annotated[int | None, typer.Argument(metavar="SUBMISSION", help="Show this one with its actions.")] = None,
    limit: Limit = 20,
) -> Answer:
    """List submissions of one-shot workflows, the newest first; or show one of them."""
    catalog = mill.catalog.datasets
    now = mill.catalog.read_time()
    if number is not None:
        return _show_submission(catalog.read_submission(number), now)
    listed = catalog.list_submissions(limit=limit)
    return Answer(
        schemas.SubmissionListDocument.build(submissions=listed),
        render_list("", SUBMISSION, listed, now, empty="nothing was submitted yet"),
    )


def _show_submission(submission: Submission, now: float) -> Answer:
    document = schemas.SubmissionDocument.model_validate(submission)
    return Answer(document, render_list("", ACTION, submission.actions, now), _format_submission(submission))


def _list_computed(submission: Submission) -> set[int]:
    """The runs that computed its actions."""
    return {action.run.id for action in submission.actions if action.run is not None}


def _format_savings(submission: Submission) -> str:
    return format_span(sum(action.saved_seconds for action in submission.actions))


SUBMISSION: tuple[Column[Submission], ...] = (
    Column(">submission", lambda s, _: s.id),
    Column("workflow", lambda s, _: s.workflow),
    Column("by", lambda s, _: s.user),
    Column("when", lambda s, now: format_age(s.at, now)),
    Column("state", lambda s, _: show_state(s.state)),
    Column(">actions", lambda s, _: len(s.actions)),
    Column(">computed", lambda s, _: len(_list_computed(s))),
    Column(">saved", lambda s, _: _format_savings(s)),
)

ACTION: tuple[Column[SubmittedAction], ...] = (
    Column("id", lambda a, _: a.key),
    Column("action", lambda a, _: a.name),
    Column("type", lambda a, _: a.kind),
    Column("state", lambda a, _: show_state(a.state)),
    Column("because", lambda a, _: a.verdict),
    Column(">run", lambda a, _: None if a.run is None else link_run(a.run.id)),
    Column(">took", lambda a, now: tables.format_run_duration(a.run, now)),
    Column(">size", lambda a, _: format_size(a.bytes)),
    Column("error", lambda a, _: take_first_line(a.run.error) if a.run else ""),
)


def history(
    mill: Tidemill,
    since: Annotated[str, typer.Option(help="A time in UTC, or how long ago: '24 hours'.")] = "7 days",
    until: Annotated[str, typer.Option(help="The same, for the end.")] = "0s",
    by: Annotated[TimeResolution, typer.Option(help="The period of one line.")] = TimeResolution.DAY,
    per: Annotated[UsageSplit | None, typer.Option(help="Split each line by this.")] = None,
    user: Annotated[str | None, typer.Option(help="Only submissions of this user.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only this workflow.")] = None,
    task: Annotated[str | None, typer.Option(help="Only this task, or actions of this name.")] = None,
) -> Answer:
    """Show submissions and refreshes over time: how much was computed and reused, and how much that saved."""
    now = mill.catalog.read_time()
    period = UsagePeriod(parse_moment(since, now), parse_moment(until, now), user, workflow, task)
    figures = mill.oneshot_service.compute_usage(period, by, per)
    shown = render_list("", columns.build_usage_columns(per), figures, empty="no usage")
    return Answer(schemas.UsageHistoryDocument.build(by=by, per=per, figures=figures), shown)


def storage(
    mill: Tidemill,
    free: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Evict this much now, e.g. '2 GB'.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Evict nothing; show the candidates.")] = False,
    drop: Annotated[str | None, typer.Option(metavar="DATASET", help="Delete a leaf.", show_default=False)] = None,
    limit: Limit = 20,
) -> Answer:
    """Show which datasets are retained and why, and the next eviction with its cost of recomputation.

    The largest are shown first; with --json, all of them.
    """
    with translate_value_error(BadInput):
        amount = None if free is None else parse_size(free)
    service = mill.oneshot_service
    if drop is not None:
        dropped = service.drop_dataset(drop)
        return Answer({"dropped": dropped.identity}, f"{dropped.workflow}/{dropped.name} is dropped")
    must_evict = amount is not None and not dry_run
    report = service.build_evictor().free_bytes(amount or 0) if must_evict else service.report_storage(amount)
    if amount is not None and report.problems:
        raise EvictionFailed(report.problems[0])
    now = mill.catalog.read_time()
    return Answer(
        serialization.serialize_storage(report, evicted=must_evict),
        *([] if must_evict else _render_retained(report, limit, now)),
        render_list("evicted" if must_evict else "next eviction", columns.CANDIDATE, report.evictions, empty=NONE),
        *report.problems,
        _format_eviction(report, must_evict),
    )


Wanted = Annotated[
    str | None,
    typer.Argument(metavar="DATASET", help="The beginning of its identity, or workflow/name.", show_default=False),
]
OfBlock = Annotated[
    int | None,
    typer.Option("--block", help="A block instead, by its number; `tidemill blocks` lists them.", show_default=False),
]


def pin(mill: Tidemill, dataset: Wanted = None, block: OfBlock = None) -> Answer:
    """Pin a dataset against eviction, or a block and all its sources against garbage collection."""
    return _set_pinned(mill, dataset, block, pinned=True)


def unpin(mill: Tidemill, dataset: Wanted = None, block: OfBlock = None) -> Answer:
    """Allow a pinned dataset to be evicted, or a pinned block to be garbage-collected."""
    return _set_pinned(mill, dataset, block, pinned=False)


def _set_pinned(mill: Tidemill, dataset: str | None, block: int | None, *, pinned: bool) -> Answer:
    if (dataset is None) == (block is None):
        raise BadInput("expected either a dataset or --block with a number; `tidemill storage` and `blocks` list them")
    if block is not None:
        document = inspection.pin_block(mill.catalog, block, pinned=pinned)
        sources = f"pinned: it is kept with its sources ({len(document.retained_blocks)} blocks in all)"
        subject = f"block {block} ({document.block.channel} at {document.block.seq})"
        return Answer(document, f"{subject} is {sources if pinned else 'no longer pinned'}")
    record = mill.oneshot_service.pin_dataset(dataset or "", pinned=pinned)
    state = "pinned: it is not evicted" if pinned else "no longer pinned"
    return Answer(schemas.DatasetDocument.model_validate(record), f"{record.workflow}/{record.name} is {state}")


def _render_retained(report: StorageReport, limit: int, now: float) -> Iterator[RenderableType]:
    yield render_list("", columns.SHARE, report.shares.listed_shares)
    largest = sorted(report.retained, key=lambda k: -k.dataset.bytes)
    yield render_list("retained", columns.RETAINED, largest[:limit], now, empty="nothing")
    if rest := [k.dataset.bytes for k in largest[limit:]]:
        yield f"and {format_plural(len(rest), 'smaller one')} of {format_size(sum(rest))}; see them with --limit"


def _format_eviction(report: StorageReport, evicted: bool) -> str:
    if not report.evictions and report.shares.store.budget is None and not report.shares.workflows:
        return "no budget is set: nothing is evicted without --free"
    verb = "were freed" if evicted else "would be freed"
    return f"{format_size(report.freed_bytes)} {verb}; recomputing all of it takes {format_span(report.seconds)}"
