"""Data that comes from outside: files that people insert."""

from tidemill.intake.load import Loaded, load
from tidemill.intake.source import Format

__all__ = ["Format", "Loaded", "load"]
