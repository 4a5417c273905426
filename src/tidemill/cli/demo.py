"""`demo`: news de-duplication on embedded defaults, checked against recomputation."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tidemill.cli import lazy_imports
from tidemill.cli.output import Answer, build_table, print_message
from tidemill.display.formatting import format_count
from tidemill.errors import ConfigError


def demo(
    batches: Annotated[int, typer.Option(min=1, help="How many batches of articles arrive.")] = 6,
    articles: Annotated[int, typer.Option(min=10, help="About how many articles a batch has.")] = 150,
    directory: Annotated[Path | None, typer.Option(help="An empty directory for the demo, which is kept.")] = None,
) -> Answer:
    """Run the news de-duplication demo: articles arrive, flows run, and the result is checked against recomputation."""
    with _prepare_directory(directory) as target:
        print_message("Articles arrive in batches, and each story must appear once. Starting Spark …")
        report = lazy_imports.run_demo(target, batches=batches, size=articles, on_progress=print_message)
    verdict = "equal to recomputation" if report.equal_to_recompute else "DIFFERENT from recomputation"
    return Answer(
        asdict(report),
        build_table("", ("step", ">time"), ((step, f"{seconds:.1f} s") for step, seconds in report.seconds.items())),
        f"{format_count(report.articles)} articles in {batches} batches, {report.runs} runs, "
        f"{report.template_versions} versions of the templates used: "
        f"{format_count(report.unique)} unique articles, {verdict}",
        exit_code=0 if report.equal_to_recompute else 1,
    )


@contextmanager
def _prepare_directory(directory: Path | None) -> Iterator[Path]:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="tidemill-demo-") as temporary:
            yield Path(temporary)
        return
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise ConfigError(f"{directory} is not empty; the demo needs an empty directory")
    yield directory
