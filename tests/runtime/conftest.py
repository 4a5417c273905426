"""Catalogs from a copy: making one anew takes longer than most of these tests."""

from tests.databases import sqlite_template

__all__ = ["sqlite_template"]
