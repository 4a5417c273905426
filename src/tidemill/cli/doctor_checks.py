"""What `doctor` checks: each check says what it found, or raises an error that says what to do."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidemill.app.settings import find_project, load_settings
from tidemill.cli.formatting import plural, size
from tidemill.cli.lazy_imports import java_problem, tidemill_class
from tidemill.errors import BlockDamaged, ConfigError, EngineError, ForeignStore, StorageError, TidemillError
from tidemill.ports.records import RECOVERING, SERVING
from tidemill.runtime.maintenance.store_ownership import check_not_rolled_back

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill

T = TypeVar("T")

_PYTHON = (3, 11)
_PYSPARK = "4.3"
_SILENT = 60.0
"""Seconds after which a server of which nothing was heard does not count."""
_SPACE = 1_000_000_000
"""Bytes that should be free: Spark spills, and blocks grow."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; of a problem, what to do about it."""

    check: str
    ok: bool
    detail: str


def findings(start: Path, *, spark: bool) -> Iterator[Finding]:
    """Everything that can be checked from a directory; without a project that opens, only the machine."""
    yield from (_finding(name, check, start) for name, check in _MACHINE)
    settings = _finding("settings", _settings, start)
    yield settings
    if not settings.ok:
        return
    try:
        mill = tidemill_class().open(start)
    except ForeignStore as error:
        yield Finding("store", False, str(error))
        return
    except TidemillError as error:
        yield Finding("storage" if isinstance(error, StorageError) else "catalog", False, str(error))
        return
    with mill:
        yield Finding("catalog", True, plural(len(mill.catalog.channels()), "registered channel"))
        yield from (_finding(name, check, mill) for name, check in _PROJECT)
        if spark:
            yield _finding("spark", _spark, mill)


def _finding(name: str, check: Callable[[T], str], subject: T) -> Finding:
    try:
        return Finding(name, True, check(subject))
    except TidemillError as error:
        return Finding(name, False, str(error))


def _python(_: Path) -> str:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _PYTHON:
        raise ConfigError(f"this is Python {found}; install {'.'.join(map(str, _PYTHON))} or newer")
    return found


def _java(_: Path) -> str:
    problem = java_problem()
    if problem is not None:
        raise EngineError(problem)
    return "found"


def _pyspark(_: Path) -> str:
    try:
        found = version("pyspark")
    except PackageNotFoundError as error:
        raise EngineError(f"pyspark is not installed; pip install 'pyspark~={_PYSPARK}.0'") from error
    if not found.startswith(f"{_PYSPARK}."):
        raise EngineError(f"pyspark is {found}; Tidemill needs {_PYSPARK}: pip install 'pyspark~={_PYSPARK}.0'")
    return found


def _space(start: Path) -> str:
    free = shutil.disk_usage(start).free
    if free < _SPACE:
        raise StorageError(f"{size(free)} free at {start.resolve()}; free some, {size(_SPACE)} is the least")
    return f"{size(free)} free"


def _settings(start: Path) -> str:
    project = find_project(start)
    load_settings(project)
    return str(project)


def _storage(mill: Tidemill) -> str:
    return mill.store.probe()


def _store(mill: Tidemill) -> str:
    check_not_rolled_back(mill.catalog, mill.store)
    named, looked_for, missing = mill.find_missing_files()
    found = f"{looked_for} of {plural(named, 'named file')} looked for"
    if missing:
        raise BlockDamaged(
            f"{found}, {len(missing)} of them missing, such as {missing[0]}. Restore them from a backup; without one, "
            "insert the data again or re-run the tasks"
        )
    return f"belongs to this catalog; {found}, all there"


def _servers(mill: Tidemill) -> str:
    """What servers say of themselves; those not heard of for a while say nothing."""
    heard = [s for s in mill.catalog.servers() if s.seen > mill.catalog.now() - _SILENT]
    lost = [s.name for s in heard if s.state == RECOVERING]
    if lost:
        raise EngineError(f"{', '.join(lost)} lost Spark's session and is starting it again; the server's log says why")
    return f"{plural(sum(s.state == SERVING for s in heard), 'server')} at work"


def _workflows(mill: Tidemill) -> str:
    return f"{', '.join(mill.settings.workflows)}: {plural(len(mill.plan()), 'change')} to apply"


def _spark(mill: Tidemill) -> str:
    session = mill.engine.spark
    session.range(1000).count()
    return f"ran a job on {mill.settings.spark.master}"


_MACHINE = (("python", _python), ("java", _java), ("pyspark", _pyspark), ("disk", _space))
_PROJECT = (("storage", _storage), ("store", _store), ("servers", _servers), ("workflows", _workflows))
