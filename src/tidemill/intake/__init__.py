"""Intake of external data: inserted files and in-memory tables."""

from tidemill.intake.input_file import Format
from tidemill.intake.loader import load_file
from tidemill.intake.memory_tables import is_table, load_table

__all__ = ["Format", "is_table", "load_file", "load_table"]
