"""TPC-H: its queries, its data and its refreshes."""

from benchmarks.tpch.data import KEYS, generate
from benchmarks.tpch.tables import REFRESHES, apply, build_workflow, compute_query, get_table_names, load, read_tables
from benchmarks.tpch.texts import NUMBERS, get_text

__all__ = [
    "KEYS",
    "NUMBERS",
    "REFRESHES",
    "apply",
    "build_workflow",
    "compute_query",
    "generate",
    "get_table_names",
    "get_text",
    "load",
    "read_tables",
]
