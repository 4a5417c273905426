"""`doctor`: is everything there that Tidemill needs? And `prepare`, so that it starts quickly."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from tidemill.cli.doctor_checks import CheckResult, run_checks
from tidemill.cli.formatting import format_size
from tidemill.cli.lazy_imports import build_class_archive
from tidemill.cli.options import AsJson, start_of
from tidemill.cli.output import build_table, print_message, show_answer


def register_commands(app: typer.Typer) -> None:
    app.command()(doctor)
    app.command()(prepare)


def doctor(
    ctx: typer.Context,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Do not start Spark.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that everything is there that Tidemill needs, and say what to do where it is not."""
    found = list(run_checks(start_of(ctx), spark=not no_spark))
    healthy = all(f.ok for f in found)
    rows = ([_format_verdict(f), f.check, f.detail] for f in found)
    show_answer(
        as_json, {"ok": healthy, "checks": [asdict(f) for f in found]}, build_table("", ("", "check", "found"), rows)
    )
    if not healthy:
        raise typer.Exit(1)


def prepare(as_json: AsJson = False) -> None:
    """Let Spark start in half the time from now on: its Java classes are read and checked once and kept in a file.

    Worth doing after each installation, and again when Java or Spark was replaced; nothing goes wrong without it.
    """
    print_message("starting Spark once, to keep what Java makes of its classes")
    made = build_class_archive()
    taken = made.stat().st_size
    show_answer(as_json, {"file": str(made), "bytes": taken}, f"kept in {made}, {format_size(taken)}")


def _format_verdict(finding: CheckResult) -> Text:
    return Text("ok", style="green") if finding.ok else Text("problem", style="red")
