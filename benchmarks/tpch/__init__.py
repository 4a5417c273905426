"""TPC-H: its queries, its data and its refreshes."""

from benchmarks.tpch.data import KEYS, generate
from benchmarks.tpch.tables import REFRESHES, apply, from_scratch, load, names, stored, workflow
from benchmarks.tpch.texts import NUMBERS, text_of

__all__ = [
    "KEYS",
    "NUMBERS",
    "REFRESHES",
    "apply",
    "from_scratch",
    "generate",
    "load",
    "names",
    "stored",
    "text_of",
    "workflow",
]
