"""One refresh of a table, temporary projects to refresh tables in, and servers for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.serving import build_server_loop
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill


@contextmanager
def open_project(directory: Path, workflow: tm.Workflow, settings: Settings | None = None) -> Iterator[Tidemill]:
    """A new project in which the workflow is applied."""
    directory.mkdir(parents=True, exist_ok=True)
    with Tidemill(directory, settings or Settings(), Project((workflow.build_spec(),))) as mill:
        mill.apply()
        yield mill


def refresh(mill: Tidemill, table: str, variant: str | None = None) -> str:
    """Run the task that writes a table; returns the variant that ran. The planner chooses if no variant is given."""
    run, _ = mill.run(table, variant=variant)
    return str(run.stats["tasks"][table].get("variant", "batch"))


def read_content(mill: Tidemill, channel: str) -> DataFrame:
    """The content of a channel, read without recording the read in Tidemill's statistics."""
    frame: DataFrame = mill.engine.read_frame(mill.content(channel))
    return frame


@contextmanager
def run_server(mill: Tidemill, tracks: int | None = None) -> Iterator[None]:
    """Run a server in this process; at the end, wait for its active runs."""
    loop = build_server_loop(mill, "work", tracks)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield
    finally:
        loop.drain()
        thread.join()
