"""TPC-H: its queries, its data and its refreshes."""

from benchmarks.tpch.data import KEYS, generate
from benchmarks.tpch.tables import REFRESHES, apply, build_workflow, compute_query, load, names, read_tables
from benchmarks.tpch.texts import NUMBERS, get_text

__all__ = [
    "KEYS",
    "NUMBERS",
    "REFRESHES",
    "apply",
    "build_workflow",
    "compute_query",
    "generate",
    "get_text",
    "load",
    "names",
    "read_tables",
]
