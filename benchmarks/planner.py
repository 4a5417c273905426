"""`python benchmarks/planner.py`: what planning itself costs, as JSON."""

from __future__ import annotations

import json
import sys

from tidemill.bench.planner import measure

if __name__ == "__main__":
    print(json.dumps(measure(tell=lambda word: print(word, file=sys.stderr)), indent=2))
