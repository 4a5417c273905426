"""`python benchmarks/linear_road.py`: what Linear Road's kernel costs without Spark, as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tidemill.bench.linear_road.measure import measure
from tidemill.bench.linear_road.traffic import Plan

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Linear Road's kernel, without Spark.")
    parser.add_argument("--expressways", type=float, nargs="+", default=[1.0, 4.0], help="several, to tell fixed costs")
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--start", type=int, default=10_200, help="second of the run: later ones have more traffic")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1, help="seconds of traffic in a batch")
    parser.add_argument("--no-check", action="store_true", help="do not compare the answers with the validator's")
    asked = parser.parse_args()
    plan = Plan(seconds=asked.seconds, start=asked.start, seed=asked.seed)
    with tempfile.TemporaryDirectory() as directory:
        found = measure(
            Path(directory),
            plan=plan,
            batch=asked.batch,
            sizes=tuple(asked.expressways),
            check=not asked.no_check,
            tell=lambda word: print(word, file=sys.stderr),
        )
    print(json.dumps(found, indent=2))
