"""The command line: all operations on a project."""

from tidemill.cli.main import main

__all__ = ["main"]
