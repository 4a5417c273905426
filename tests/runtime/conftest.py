"""Catalogs are copied from a template: creating one takes longer than most of these tests."""

from tests.databases import sqlite_template

__all__ = ["sqlite_template"]
