"""`doctor`: is everything there that Tidemill needs? And `prepare`, so that it starts quickly."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from tidemill.cli.doctor_checks import Finding, findings
from tidemill.cli.formatting import size
from tidemill.cli.lazy_imports import make_archive
from tidemill.cli.options import AsJson, start_of
from tidemill.cli.output import show, table, tell


def register(app: typer.Typer) -> None:
    app.command()(doctor)
    app.command()(prepare)


def doctor(
    ctx: typer.Context,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Do not start Spark.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that everything is there that Tidemill needs, and say what to do where it is not."""
    found = list(findings(start_of(ctx), spark=not no_spark))
    healthy = all(f.ok for f in found)
    rows = ([_verdict(f), f.check, f.detail] for f in found)
    show(as_json, {"ok": healthy, "checks": [asdict(f) for f in found]}, table("", ("", "check", "found"), rows))
    if not healthy:
        raise typer.Exit(1)


def prepare(as_json: AsJson = False) -> None:
    """Let Spark start in half the time from now on: its Java classes are read and checked once and kept in a file.

    Worth doing after each installation, and again when Java or Spark was replaced; nothing goes wrong without it.
    """
    tell("starting Spark once, to keep what Java makes of its classes")
    made = make_archive()
    taken = made.stat().st_size
    show(as_json, {"file": str(made), "bytes": taken}, f"kept in {made}, {size(taken)}")


def _verdict(finding: Finding) -> Text:
    return Text("ok", style="green") if finding.ok else Text("problem", style="red")
