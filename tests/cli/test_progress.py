from __future__ import annotations

import io

import pytest
from rich.console import Console

from tidemill.cli.output import ProgressBar


@pytest.fixture
def screen() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80)


def read_screen(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_slow_work_is_shown(screen: Console) -> None:
    with ProgressBar(screen, show_after=0) as bar:
        bar("reading [orders].csv", 0.5)
        assert bar.shown.wait(10)
    assert "reading [orders].csv" in read_screen(screen)
    assert "50%" in read_screen(screen)


def test_quick_work_is_not_shown(screen: Console) -> None:
    with ProgressBar(screen, show_after=3600) as bar:
        bar("reading", 0.5)
    assert read_screen(screen) == ""


def test_nothing_is_shown_without_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with ProgressBar(console, show_after=0) as bar:
        bar("reading", 0.5)
    assert read_screen(console) == ""
