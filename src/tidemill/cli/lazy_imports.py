"""What takes about a second to import, imported when a command first needs it.

`tidemill --version`, `--help` and `init` need neither SQLAlchemy nor Spark, and shall answer at once. Every
function-level import of the command line stands here, so that there is one place to look and to undo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill
    from tidemill.catalog import SqlCatalog
    from tidemill.catalog.access import Accounts
    from tidemill.demo.story import Report, Tell
    from tidemill.server.http_server import Listener


def tidemill_class() -> type[Tidemill]:
    from tidemill.app.wiring import Tidemill  # noqa: PLC0415

    return Tidemill


def make_archive() -> Path:
    from tidemill.spark.class_archive import make  # noqa: PLC0415

    return make()


def listener(mill: Tidemill, wake: Callable[[], None]) -> Listener:
    from tidemill.cli.web import listener  # noqa: PLC0415

    return listener(mill, wake)


def accounts_class() -> type[Accounts]:
    from tidemill.catalog.access import Accounts  # noqa: PLC0415

    return Accounts


def java_problem() -> str | None:
    from tidemill.spark.session import java_problem  # noqa: PLC0415

    return java_problem()


def demonstrate(directory: Path, *, batches: int, size: int, tell: Tell) -> Report:
    from tidemill.demo.story import demonstrate  # noqa: PLC0415

    return demonstrate(directory, batches=batches, size=size, tell=tell)


@contextmanager
def open_catalog_at(url: str) -> Iterator[SqlCatalog]:
    from tidemill.catalog import open_catalog  # noqa: PLC0415

    catalog = open_catalog(url)
    try:
        yield catalog
    finally:
        catalog.close()
