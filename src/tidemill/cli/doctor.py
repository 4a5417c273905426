"""`doctor`: checks the requirements of Tidemill; and `prepare`, which makes Spark start faster."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from tidemill.cli.doctor_checks import CheckResult, run_checks
from tidemill.cli.lazy_imports import build_class_archive
from tidemill.cli.options import find_start
from tidemill.cli.output import Answer, build_table, print_message
from tidemill.display.formatting import format_size


def doctor(
    ctx: typer.Context,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Do not start Spark.")] = False,
) -> Answer:
    """Check the requirements of Tidemill, and explain how to meet those that are not met."""
    results = list(run_checks(find_start(ctx), spark=not no_spark))
    healthy = all(f.ok for f in results)
    rows = ([_format_verdict(f), f.check, f.detail] for f in results)
    table = build_table("", ("", "check", "found"), rows)
    return Answer({"ok": healthy, "checks": results}, table, exit_code=0 if healthy else 1)


def prepare() -> Answer:
    """Halve the start time of Spark: its Java classes are loaded and verified once and kept in a file.

    Useful after each installation, and when Java or Spark was replaced; everything works without it, too.
    """
    print_message("starting Spark once, to archive its Java classes")
    archive = build_class_archive()
    size = archive.stat().st_size
    return Answer({"file": str(archive), "bytes": size}, f"wrote {archive}, {format_size(size)}")


def _format_verdict(result: CheckResult) -> Text:
    return Text("ok", style="green") if result.ok else Text("problem", style="red")
