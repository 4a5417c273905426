"""`python benchmarks/keyed.py`: a batch of a keyed task in the driver and in Spark's Python workers, as JSON."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tidemill.bench.keyed import measure
from tidemill.spark.session import start

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Where a batch of a keyed task had better run.")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 16_000, 64_000, 250_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        spark = start("local[2]")
        print(json.dumps(measure(Path(directory), spark, sizes=asked.rows, rounds=asked.rounds), indent=2))
        spark.stop()
