"""Prints the oracles' reports at the end of the test run."""

from __future__ import annotations

import pytest

REPORT = "report at the end"
"""The property of a test whose text is printed at the end of the run."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for outcome in ("passed", "failed") for r in terminalreporter.stats.get(outcome, [])]
    texts = [(r.nodeid, text) for r in reports for name, text in r.user_properties if name == REPORT]
    for test, text in texts:
        terminalreporter.section(test)
        terminalreporter.write_line(str(text))
