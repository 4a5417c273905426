from __future__ import annotations

import io

import pytest
from rich.console import Console

from tidemill.cli.progress import ProgressBar


@pytest.fixture
def screen() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_work_that_takes_a_while_is_shown(screen: Console) -> None:
    with ProgressBar(screen, show_after=0) as bar:
        bar("reading [orders].csv", 0.5)
        assert bar.shown.wait(10)
    assert "reading [orders].csv" in printed(screen)
    assert "50%" in printed(screen)


def test_quick_work_is_not(screen: Console) -> None:
    with ProgressBar(screen, show_after=3600) as bar:
        bar("reading", 0.5)
    assert printed(screen) == ""


def test_nothing_is_shown_where_nobody_looks() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with ProgressBar(console, show_after=0) as bar:
        bar("reading", 0.5)
    assert printed(console) == ""
