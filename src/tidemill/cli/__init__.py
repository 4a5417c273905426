"""The command line: everything a project does, typed."""

from tidemill.cli.main import main

__all__ = ["main"]
