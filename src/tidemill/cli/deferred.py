"""What takes about a second to import, imported when a command first needs it.

`tidemill --version`, `--help` and `init` need neither SQLAlchemy nor Spark, and shall answer at once. Every
function-level import of the command line stands here, so that there is one place to look and to undo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.app import Tidemill


def tidemill_class() -> type[Tidemill]:
    from tidemill.app import Tidemill  # noqa: PLC0415

    return Tidemill


def java_problem() -> str | None:
    from tidemill.spark.session import java_problem  # noqa: PLC0415

    return java_problem()
