"""Imports that take about a second, done when a command first needs them.

`tidemill --version`, `--help` and `init` need neither SQLAlchemy nor Spark, and answer at once. Every function-level
import of the command line is in this module, so that there is one place to find and remove them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill
    from tidemill.catalog import SqlCatalog
    from tidemill.demo.story import DemoReport, ProgressReporter
    from tidemill.runtime.runs.server import ServerLoop
    from tidemill.runtime.runs.sources import SourceRunner
    from tidemill.server.http_server import HttpListener


def load_tidemill_class() -> type[Tidemill]:
    from tidemill.app.wiring import Tidemill  # noqa: PLC0415

    return Tidemill


def build_class_archive() -> Path:
    from tidemill.spark.class_archive import build_archive  # noqa: PLC0415

    return build_archive()


def build_server_loop(mill: Tidemill, role: str, tracks: int | None) -> ServerLoop:
    from tidemill.app.serving import build_server_loop  # noqa: PLC0415

    return build_server_loop(mill, role, tracks)


def start_sources(mill: Tidemill, wake: Callable[[], None]) -> SourceRunner:
    from tidemill.app.serving import start_sources  # noqa: PLC0415

    return start_sources(mill, wake)


def build_listener(mill: Tidemill, wake: Callable[[], None]) -> HttpListener:
    from tidemill.cli.web import build_listener  # noqa: PLC0415

    return build_listener(mill, wake)


def find_java_problem() -> str | None:
    from tidemill.spark.session import find_java_problem  # noqa: PLC0415

    return find_java_problem()


def run_demo(directory: Path, *, batches: int, size: int, tell: ProgressReporter) -> DemoReport:
    from tidemill.demo.story import run_demo  # noqa: PLC0415

    return run_demo(directory, batches=batches, size=size, on_progress=tell)


@contextmanager
def open_catalog_at(url: str) -> Iterator[SqlCatalog]:
    from tidemill.catalog import open_catalog  # noqa: PLC0415

    catalog = open_catalog(url)
    try:
        yield catalog
    finally:
        catalog.close()
