"""`python benchmarks/windows.py`: what forming windows of rows costs, as JSON."""

from __future__ import annotations

import json

from tidemill.bench.windows import measure

if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
