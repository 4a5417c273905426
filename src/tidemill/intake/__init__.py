"""Data that comes from outside: files and tables that people insert."""

from tidemill.intake.load import Loaded, load
from tidemill.intake.source import Format
from tidemill.intake.tables import is_table, load_table

__all__ = ["Format", "Loaded", "is_table", "load", "load_table"]
