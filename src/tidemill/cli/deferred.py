"""What takes about a second to import, imported when a command first needs it.

`tidemill --version`, `--help` and `init` need neither SQLAlchemy nor Spark, and shall answer at once. Every
function-level import of the command line stands here, so that there is one place to look and to undo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.errors import ConfigError

if TYPE_CHECKING:
    from tidemill.app import Tidemill
    from tidemill.catalog import SqlCatalog
    from tidemill.catalog.access import Accounts
    from tidemill.demo.story import Report, Tell
    from tidemill.server.listen import Listener


def tidemill_class() -> type[Tidemill]:
    from tidemill.app import Tidemill  # noqa: PLC0415

    return Tidemill


def make_archive() -> Path:
    from tidemill.spark.archive import make  # noqa: PLC0415

    return make()


def listener(mill: Tidemill, wake: Callable[[], None]) -> Listener:
    from tidemill.cli.listening import listener  # noqa: PLC0415

    return listener(mill, wake)


def accounts_class() -> type[Accounts]:
    from tidemill.catalog.access import Accounts  # noqa: PLC0415

    return Accounts


def java_problem() -> str | None:
    from tidemill.spark.session import java_problem  # noqa: PLC0415

    return java_problem()


def demonstrate(directory: Path, *, batches: int, size: int, tell: Tell) -> Report:
    from tidemill.demo.run import demonstrate  # noqa: PLC0415

    return demonstrate(directory, batches=batches, size=size, tell=tell)


def measure_overhead(directory: Path, **wanted: Any) -> dict[str, Any]:
    from tidemill.bench.overhead import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_growth(directory: Path, **wanted: Any) -> dict[str, Any]:
    from tidemill.bench.growth import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_together(directory: Path, **wanted: Any) -> dict[str, Any]:
    from tidemill.bench.together import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_tick(directory: Path, **wanted: Any) -> dict[str, Any]:
    from tidemill.bench.tick import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_load(directory: Path, **wanted: Any) -> dict[str, Any]:
    from tidemill.bench.load import measure  # noqa: PLC0415

    return measure(directory, **wanted)


@contextmanager
def open_catalog_at(url: str) -> Iterator[SqlCatalog]:
    from tidemill.catalog import open_catalog  # noqa: PLC0415

    catalog = open_catalog(url)
    try:
        yield catalog
    finally:
        catalog.close()


def measure_push(directory: Path, **wanted: Any) -> dict[str, Any]:
    from tidemill.bench.push import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_modes(directory: Path, **wanted: Any) -> dict[str, Any]:
    with _extra("bench"):
        from tidemill.bench.modes import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_staleness(directory: Path, **wanted: Any) -> dict[str, Any]:
    from tidemill.bench.staleness import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_choices(directory: Path, **wanted: Any) -> dict[str, Any]:
    with _extra("bench"):
        from tidemill.bench.choices import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_planner(**wanted: Any) -> dict[str, Any]:
    from tidemill.bench.planner import measure  # noqa: PLC0415

    return measure(**wanted)


def measure_dispatch(**wanted: Any) -> dict[str, Any]:
    from tidemill.bench.dispatch import measure  # noqa: PLC0415

    return measure(**wanted)


def measure_merge(directory: Path, **wanted: Any) -> list[dict[str, Any]]:
    from tidemill.bench.merge import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_incremental(directory: Path, **wanted: Any) -> dict[str, Any]:
    with _extra("bench"):
        from tidemill.bench.incremental import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_join(directory: Path, **wanted: Any) -> dict[str, Any]:
    with _extra("bench"):
        from tidemill.bench.join import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_queries(directory: Path, **wanted: Any) -> dict[str, Any]:
    with _extra("bench"):
        from tidemill.bench.queries import measure  # noqa: PLC0415

    return measure(directory, **wanted)


def measure_storage(**wanted: Any) -> dict[str, Any]:
    from tidemill.bench.storage import measure  # noqa: PLC0415

    return measure(**wanted)


def measure_linear_road(
    directory: Path,
    *,
    plan: dict[str, Any],
    files: dict[str, Path | None],
    rate: bool,
    policies: Sequence[str],
    **wanted: Any,
) -> dict[str, Any]:
    from tidemill.bench.linear_road import rating  # noqa: PLC0415
    from tidemill.bench.linear_road.traffic import Plan  # noqa: PLC0415

    if rate:
        return rating.rate(directory, plan=Plan(**plan), tell=wanted["tell"])
    if policies:
        given = {"plan": Plan(**plan), "files": rating.Files(**files), "tell": wanted["tell"]}
        return rating.compare(directory, policies=policies, **given)
    return rating.measure(directory, plan=Plan(**plan), files=rating.Files(**files), **wanted)


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """What is imported inside needs packages that come with an extra only."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"this needs {error.name}, which is not installed; pip install 'tidemill[{name}]'") from error
