"""`doctor`: is everything there that Tidemill needs?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from tidemill.cli.checks import Finding, findings
from tidemill.cli.options import AsJson, start_of
from tidemill.cli.output import show, table


def register(app: typer.Typer) -> None:
    app.command()(doctor)


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


def _verdict(finding: Finding) -> Text:
    return Text("ok", style="green") if finding.ok else Text("problem", style="red")
