"""The eight tables, made by the program `tpchgen-cli`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tidemill.errors import ConfigError

KEYS: Mapping[str, tuple[str, ...]] = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
"""The tables and their keys."""

_PROGRAM = "tpchgen-cli"


def generate(directory: Path, scale: float) -> dict[str, Path]:
    """Write the tables at that scale (1 has 1.5 million orders); returns the Parquet file of each."""
    command = [_program(), "parquet", "-s", f"{scale:g}", f"--output-dir={directory}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or f"it ended with code {done.returncode}"
        raise ConfigError(f"{_PROGRAM} did not make the TPC-H tables at scale {scale:g}: {said}")
    return {table: directory / f"{table}.parquet" for table in KEYS}


def _program() -> str:
    """The program that was installed with this Python, or else the one on the path."""
    found = shutil.which(_PROGRAM, path=str(Path(sys.executable).parent)) or shutil.which(_PROGRAM)
    if found is None:
        raise ConfigError(f"{_PROGRAM} was not found, which makes the TPC-H tables; run `make setup`")
    return found
