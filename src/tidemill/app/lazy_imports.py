"""Imports of Spark, DuckDB and NumPy, done when a project first computes, inserts or submits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.late_imports import import_late

if TYPE_CHECKING:
    from tidemill.intake import insert_batch as insert_batch
    from tidemill.intake.loader import load_file as load_file
    from tidemill.intake.memory_tables import is_table as is_table
    from tidemill.intake.memory_tables import load_table as load_table
    from tidemill.runtime.oneshot.service import OneShotService as OneShotService
    from tidemill.spark.engine import SparkEngine as SparkEngine
    from tidemill.spark.session import ship_module as ship_module
    from tidemill.spark.session import start_session as start_session
    from tidemill.spark.store_probe import start_on_store as start_on_store
else:
    __getattr__ = import_late(
        __name__,
        {
            "OneShotService": "tidemill.runtime.oneshot.service",
            "SparkEngine": "tidemill.spark.engine",
            "is_table": "tidemill.intake.memory_tables",
            "load_file": "tidemill.intake.loader",
            "load_table": "tidemill.intake.memory_tables",
            "ship_module": "tidemill.spark.session",
            "start_on_store": "tidemill.spark.store_probe",
            "start_session": "tidemill.spark.session",
        },
        ["tidemill.intake.insert_batch"],
    )
