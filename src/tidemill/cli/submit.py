"""`submit` and `submissions`: one-shot workflows, and their results."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from tidemill.cli import tables
from tidemill.cli.formatting import format_age, format_duration, format_plural, format_size
from tidemill.cli.options import Limit
from tidemill.cli.output import Answer, build_console, build_table
from tidemill.cli.progress import ProgressBar
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
    return _show_submission(submission)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}") from error


def _compute_progress(submission: Submission) -> float:
    return sum(a.state is RunState.FINISHED for a in submission.actions) / len(submission.actions)


def _format_summary(submission: Submission) -> str:
    ran = {a.run.id for a in submission.actions if a.run is not None}
    saved = format_duration(0.0, sum(a.saved_seconds for a in submission.actions))
    total = format_plural(len(submission.actions), "action")
    return f"submission {submission.id} {submission.state}: {total}, {len(ran)} computed, {saved} saved"


def submissions(
    mill: Tidemill,
    number: Annotated[int | None, typer.Argument(metavar="SUBMISSION", help="Show this one with its actions.")] = None,
    limit: Limit = 20,
) -> Answer:
    """List submissions of one-shot workflows, the newest first; or show one of them."""
    catalog = mill.oneshot_service.dataset_catalog
    if number is not None:
        return _show_submission(catalog.read_submission(number))
    listed, now = catalog.list_submissions(limit=limit), mill.catalog.read_time()
    return Answer(SubmissionListDocument.build(submissions=listed), _render_submissions(listed, now))


def _show_submission(submission: Submission) -> Answer:
    document = SubmissionDocument.model_validate(submission)
    return Answer(document, _render_actions(submission), _format_summary(submission))


def _render_submissions(listed: list[Submission], now: float) -> RenderableType:
    headings = (">submission", "workflow", "by", "when", "state", ">actions", ">computed", ">saved")
    return build_table("", headings, (_build_submission_row(s, now) for s in listed), empty="nothing was submitted yet")


def _build_submission_row(value: Submission, now: float) -> list[object]:
    ran = {a.run.id for a in value.actions if a.run is not None}
    saved = format_duration(0.0, sum(a.saved_seconds for a in value.actions))
    cells = [value.id, value.workflow, value.user, format_age(value.at, now), tables.style_state(value.state)]
    return [*cells, len(value.actions), len(ran), saved]


def _render_actions(value: Submission) -> RenderableType:
    headings = ("id", "action", "type", "state", "because", ">run", ">took", ">size", "error")
    return build_table("", headings, (_build_action_row(a) for a in value.actions))


def _build_action_row(value: SubmittedAction) -> list[object]:
    run = value.run
    error = (run.error or "").partition("\n")[0] if run else ""
    run_cells = [None, None] if run is None else [run.id, tables.format_run_duration(run)]
    return [
        value.key,
        value.name,
        value.kind,
        tables.style_state(value.state),
        value.verdict,
        *run_cells,
        format_size(value.bytes),
        error,
    ]
