"""The demonstration: batches arrive, flows run, and the result is compared with a recomputation."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.app.project import load_project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.demo.articles import generate_batches, write_articles
from tidemill.demo.recompute import compute_unique_articles

DETECT_EVERY = 3
"""Template detection runs at every third batch; the batches between use older templates."""

ProgressReporter = Callable[[str], None]


@dataclass(slots=True)
class DemoReport:
    articles: int = 0
    unique: int = 0
    runs: int = 0
    batches: int = 0
    template_versions: int = 0
    equal_to_recompute: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure_time(self, phase: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[phase] = round(self.seconds.get(phase, 0.0) + time.monotonic() - started, 3)


def run_in_project(
    mill: Tidemill, scratch: Path, *, count: int, size: int, on_progress: ProgressReporter
) -> DemoReport:
    """Run the demonstration on an open, empty project."""
    report = DemoReport(batches=count)
    with report.measure_time("total"):
        mill.apply()
        with report.measure_time("start"):
            mill.engine.start()
        on_progress(f"Spark started in {report.seconds['start']:.1f} s")
        for number, batch in enumerate(generate_batches(count, size)):
            path = write_articles(batch, scratch / f"batch{number}.jsonl")
            with report.measure_time("insert"):
                mill.insert("articles", path, key=f"batch-{number}")
            report.articles += len(batch)
            on_progress(f"batch {number}: {len(batch)} articles arrived")
            for flow in ("templates", "pipeline") if number % DETECT_EVERY == 0 else ("pipeline",):
                _run_flow(mill, flow, report, on_progress)
        with report.measure_time("proof"):
            _verify_result(mill, report)
        on_progress("recomputed from scratch with the templates that each block's provenance names")
    return report


def _run_flow(mill: Tidemill, flow: str, report: DemoReport, on_progress: ProgressReporter) -> None:
    started = time.monotonic()
    with report.measure_time(flow):
        _, blocks = mill.run(flow)
    report.runs += 1
    rows = ", ".join(f"{b.channel} {b.kind} of {b.rows}" for b in blocks)
    on_progress(f"  {flow}: {rows} rows, {time.monotonic() - started:.2f} s")


def _verify_result(mill: Tidemill, report: DemoReport) -> None:
    actual = Counter((r["url"], r["digest"]) for r in mill.rows("unique_articles"))
    head = mill.catalog.channels.read("tagged").head.provenance
    report.unique = actual.total()
    report.template_versions = len(head[("articles", "templates")])
    report.equal_to_recompute = actual == compute_unique_articles(mill)


def run_demo(directory: Path, *, batches: int, size: int, on_progress: ProgressReporter) -> DemoReport:
    """Run the demonstration in a directory without a project."""
    project = load_project(Path(__file__).parent, ["workflow.py"])
    with Tidemill(directory, Settings(), project) as mill:
        return run_in_project(mill, directory, count=batches, size=size, on_progress=on_progress)
