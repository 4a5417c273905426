"""Commands that only show something neither import nor start the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tidemill.app.deferred_engine import DeferredEngine

SHOW_STATUS = """
import sys
from tidemill.cli.main import main
try:
    main(["--project", sys.argv[1], "status", "--json"])
finally:
    print([name for name in ("pyspark", "duckdb", "numpy", "pyarrow", "pandas") if name in sys.modules])
"""


class Engine:
    stopped = 0

    def report_health(self) -> str:
        return "ready"

    def stop(self) -> None:
        self.stopped += 1


def test_an_engine_is_built_once_when_it_is_first_used() -> None:
    built: list[Engine] = []

    def build() -> Engine:
        built.append(Engine())
        return built[-1]

    engine = DeferredEngine(build)
    engine.stop()
    assert not built
    assert [engine.report_health(), engine.report_health()] == ["ready", "ready"]
    engine.stop()
    assert [e.stopped for e in built] == [1]


def test_the_status_imports_no_library_that_computes(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text("", encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-c", SHOW_STATUS, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert process.stdout.splitlines()[-1] == "[]", process.stderr
