"""`submit` and `submissions`: one-shot workflows, and their results."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import tables
from tidemill.cli.options import Limit
from tidemill.cli.output import Answer, build_console, render_list
from tidemill.cli.progress import ProgressBar
from tidemill.display.formatting import (
    format_age,
    format_plural,
    format_size,
    format_span,
    take_first_line,
)
from tidemill.display.table import Column, link_run, show_state
from tidemill.errors import BadInput
from tidemill.model.run import RunState
from tidemill.model.submission import Submission, SubmittedAction
from tidemill.wire.oneshot_schemas import SubmissionDocument, SubmissionListDocument

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def submit(
    mill: Tidemill,
    workflow: Annotated[Path, typer.Argument(help="A one-shot workflow in JSON.", exists=True, dir_okay=False)],
    watch: Annotated[bool, typer.Option("--watch", help="Run ready actions here too, and wait for the end.")] = False,
) -> Answer:
    """Submit a one-shot workflow. Results of earlier computations are reused; servers run the rest, or --watch does."""
    submission = mill.oneshot_service.submit_workflow(_read_text(workflow), getpass.getuser())
    if watch:
        with ProgressBar(build_console(sys.stderr)) as bar:
            submission = mill.oneshot_service.complete_submission(
                submission.id, lambda s: bar(s.workflow, _compute_progress(s))
            )
    return _show_submission(submission, mill.catalog.read_time())


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}") from error


def _compute_progress(submission: Submission) -> float:
    return sum(a.state is RunState.FINISHED for a in submission.actions) / len(submission.actions)


def _format_summary(submission: Submission) -> str:
    total, computed = format_plural(len(submission.actions), "action"), len(_list_computed(submission))
    return (
        f"submission {submission.id} {submission.state}: {total}, {computed} computed, "
        f"{_format_savings(submission)} saved"
    )


def submissions(
    mill: Tidemill,
    number: Annotated[int | None, typer.Argument(metavar="SUBMISSION", help="Show this one with its actions.")] = None,
    limit: Limit = 20,
) -> Answer:
    """List submissions of one-shot workflows, the newest first; or show one of them."""
    catalog = mill.oneshot_service.dataset_catalog
    now = mill.catalog.read_time()
    if number is not None:
        return _show_submission(catalog.read_submission(number), now)
    listed = catalog.list_submissions(limit=limit)
    return Answer(
        SubmissionListDocument.build(submissions=listed),
        render_list("", SUBMISSION, listed, now, empty="nothing was submitted yet"),
    )


def _show_submission(submission: Submission, now: float) -> Answer:
    document = SubmissionDocument.model_validate(submission)
    return Answer(document, render_list("", ACTION, submission.actions, now), _format_summary(submission))


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
