"""TPC-H: its queries, its data and its refreshes."""

from tidemill.bench.tpch.data import KEYS, generate
from tidemill.bench.tpch.tables import REFRESHES, apply, from_scratch, load, names, stored, workflow
from tidemill.bench.tpch.texts import NUMBERS, text_of

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
