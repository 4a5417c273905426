"""Imports that take about a second, done when a command first needs them.

`tidemill --version`, `--help` and `init` need neither SQLAlchemy nor Spark, and answer at once. Every late import
of the command line is in this module, so that there is one place to find and remove them: read its names as attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.late_imports import import_late

if TYPE_CHECKING:
    from tidemill.app.isolation import IsolatedTidemill as IsolatedTidemill
    from tidemill.app.serving import build_server_loop as build_server_loop
    from tidemill.app.serving import start_sources as start_sources
    from tidemill.app.wiring import Tidemill as Tidemill
    from tidemill.catalog import open_catalog as open_catalog
    from tidemill.cli.web import build_listener as build_listener
    from tidemill.client import Client as Client
    from tidemill.demo.story import run_demo as run_demo
    from tidemill.spark.class_archive import build_archive as build_archive
    from tidemill.spark.session import find_java_problem as find_java_problem
else:
    __getattr__ = import_late(
        __name__,
        {
            "Client": "tidemill.client",
            "IsolatedTidemill": "tidemill.app.isolation",
            "Tidemill": "tidemill.app.wiring",
            "build_archive": "tidemill.spark.class_archive",
            "build_listener": "tidemill.cli.web",
            "build_server_loop": "tidemill.app.serving",
            "find_java_problem": "tidemill.spark.session",
            "open_catalog": "tidemill.catalog",
            "run_demo": "tidemill.demo.story",
            "start_sources": "tidemill.app.serving",
        },
    )
