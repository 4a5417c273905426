"""`doctor`: checks the requirements of Tidemill; and `prepare`, which makes Spark start faster."""

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.text import Text

from tidemill.app.settings import find_project, load_settings
from tidemill.cli import lazy_imports
from tidemill.cli.command import Tidemill, find_start
from tidemill.cli.output import Answer, build_table, print_message
from tidemill.display.formatting import format_plural
from tidemill.errors import BlockDamaged, ConfigError, EngineError, StorageError, StoreMismatch, TidemillError
from tidemill.model.network import hide_credentials
from tidemill.model.units import format_size
from tidemill.ports.records import RECOVERING, SERVING
from tidemill.runtime.maintenance.store_ownership import check_not_rolled_back

T = TypeVar("T")

_PYTHON = (3, 11)
_PYSPARK = "4.3"
_FILE_SAMPLE_SIZE = 1000
"""The number of referenced files that are looked up in the store, spread evenly over all."""
_MIN_FREE_BYTES = 1_000_000_000
"""Bytes that should be free: Spark spills, and blocks grow."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check; for a problem, what to do about it."""

    check: str
    ok: bool
    detail: str


def run_checks(start: Path, *, spark: bool) -> Iterator[CheckResult]:
    """Run all checks that are possible from a directory; without a project that opens, only those of the machine."""
    yield from (_run_check(name, check, start) for name, check in _MACHINE)
    settings = _run_check("settings", _check_settings, start)
    yield settings
    if not settings.ok:
        return
    try:
        mill = lazy_imports.Tidemill.open(start)
    except StoreMismatch as error:
        yield CheckResult("store", False, str(error))
        return
    except TidemillError as error:
        yield CheckResult("storage" if isinstance(error, StorageError) else "catalog", False, str(error))
        return
    with mill:
        yield CheckResult("catalog", True, format_plural(len(mill.catalog.channels.list()), "registered channel"))
        yield from (_run_check(name, check, mill) for name, check in _PROJECT)
        if spark:
            yield _run_check("spark", _check_spark, mill)


def _run_check(name: str, check: Callable[[T], str], subject: T) -> CheckResult:
    try:
        return CheckResult(name, True, check(subject))
    except TidemillError as error:
        return CheckResult(name, False, str(error))


def _check_python(_: Path) -> str:
    current = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _PYTHON:
        raise ConfigError(f"this is Python {current}; install {'.'.join(map(str, _PYTHON))} or newer")
    return current


def _check_java(_: Path) -> str:
    problem = lazy_imports.find_java_problem()
    if problem is not None:
        raise EngineError(problem)
    return "found"


def _check_pyspark(_: Path) -> str:
    try:
        installed = version("pyspark")
    except PackageNotFoundError as error:
        raise EngineError(f"pyspark is not installed; pip install 'pyspark~={_PYSPARK}.0'") from error
    if not installed.startswith(f"{_PYSPARK}."):
        raise EngineError(f"pyspark is {installed}; Tidemill needs {_PYSPARK}: pip install 'pyspark~={_PYSPARK}.0'")
    return installed


def _check_disk_space(start: Path) -> str:
    free = shutil.disk_usage(start).free
    if free < _MIN_FREE_BYTES:
        raise StorageError(
            f"{format_size(free)} free at {start.resolve()}; {format_size(_MIN_FREE_BYTES)} or more is needed"
        )
    return f"{format_size(free)} free"


def _check_settings(start: Path) -> str:
    project = find_project(start)
    load_settings(project)
    return str(project)


def _check_store(mill: Tidemill) -> str:
    check_not_rolled_back(mill.catalog, mill.store)
    referenced = sorted(mill.catalog.files.list_referenced())
    checked = referenced[:: max(1, -(-len(referenced) // _FILE_SAMPLE_SIZE))]
    found_missing = mill.store.find_missing(checked)
    missing = sorted(mill.catalog.files.find_referenced(found_missing))  # others were removed meanwhile
    summary = f"{len(checked)} of {format_plural(len(referenced), 'referenced file')} checked"
    if missing:
        raise BlockDamaged(
            f"{summary}, {len(missing)} of them missing, such as {missing[0]}. Restore them from a backup; without "
            "one, insert the data again or re-run the tasks"
        )
    return f"belongs to this catalog; {summary}, all exist"


def _check_servers(mill: Tidemill) -> str:
    """Check the states that servers report."""
    servers = mill.catalog.servers.list()
    recovering = [s.name for s in servers if s.state == RECOVERING]
    if recovering:
        raise EngineError(f"{', '.join(recovering)} lost Spark's session and is restarting it; see the server's log")
    return f"{format_plural(sum(s.state == SERVING for s in servers), 'server')} serving"


def _check_workflows(mill: Tidemill) -> str:
    return f"{', '.join(mill.settings.workflows)}: {format_plural(len(mill.plan()), 'change')} to apply"


def _check_spark(mill: Tidemill) -> str:
    session = mill.spark
    session.range(1000).count()
    return f"ran a job on {hide_credentials(mill.settings.spark.master)}"


_MACHINE = (("python", _check_python), ("java", _check_java), ("pyspark", _check_pyspark), ("disk", _check_disk_space))
_PROJECT: tuple[tuple[str, Callable[[Tidemill], str]], ...] = (
    ("storage", lambda mill: mill.store.probe_access()),
    ("store", _check_store),
    ("servers", _check_servers),
    ("workflows", _check_workflows),
)


def doctor(
    ctx: typer.Context, no_spark: Annotated[bool, typer.Option("--no-spark", help="Do not start Spark.")] = False
) -> Answer:
    """Check the requirements of Tidemill, and explain how to meet those that are not met."""
    results = list(run_checks(find_start(ctx), spark=not no_spark))
    healthy = all(f.ok for f in results)
    rows = ([Text("ok", style="green") if f.ok else Text("problem", style="red"), f.check, f.detail] for f in results)
    table = build_table("", ("", "check", "found"), rows)
    return Answer({"ok": healthy, "checks": results}, table, exit_code=0 if healthy else 1)


def prepare() -> Answer:
    """Halve the start time of Spark: its Java classes are loaded and verified once and kept in a file.

    Useful after each installation, and when Java or Spark was replaced; everything works without it, too.
    """
    print_message("starting Spark once, to archive its Java classes")
    archive = lazy_imports.build_archive()
    size = archive.stat().st_size
    return Answer({"file": str(archive), "bytes": size}, f"wrote {archive}, {format_size(size)}")
