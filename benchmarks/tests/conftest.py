"""Shared fixtures: the Spark session of the product's tests, and the program in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.__main__ import main
from tests.cli.program import CommandResult, Program

from tests.conftest import spark

__all__ = ["bench", "spark"]


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path, capsys)


class Bench(Program):
    """`python -m benchmarks`, inside the test's process."""

    def __call__(self, *arguments: str | Path | int) -> CommandResult:
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([*map(str, arguments)])
        printed = self.capsys.readouterr()
        assert isinstance(end.value.code, int)
        return CommandResult(end.value.code, printed.out, printed.err)
