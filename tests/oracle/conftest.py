"""What the oracles tell at the end."""

from __future__ import annotations

import pytest

TOLD = "told at the end"
"""The property of a test whose lines stand at the end of the report."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for found in ("passed", "failed") for r in terminalreporter.stats.get(found, [])]
    told = [(r.nodeid, text) for r in reports for name, text in r.user_properties if name == TOLD]
    for test, text in told:
        terminalreporter.section(test)
        terminalreporter.write_line(str(text))
