"""Counts comparisons: a search with few of them, or only of batch refreshes, proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.oracle.queries.case import Case

CONSTRUCTS = (
    *("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "USING", "<=>"),
    *(" EXISTS", "NOT EXISTS", " IN (SELECT", " NOT IN (SELECT", "(SELECT max", "(SELECT count(*)", ".o.x", ".o.y"),
    *("GROUP BY", "HAVING", "FILTER", "ROLLUP", "GROUPING SETS", "count(DISTINCT", "stddev", "bool_and", "avg"),
    *("SELECT DISTINCT", "UNION ALL", "UNION SELECT", "INTERSECT ALL", "INTERSECT SELECT", "EXCEPT ALL"),
    *("row_number()", "dense_rank()", "lag(", "first_value(", "PARTITION BY", "ROWS BETWEEN", "QUALIFY", "LIMIT"),
    *("WITH ", "LATERAL VIEW", " explode(", "CASE", "BETWEEN", "LIKE", "IS NULL", "NOT (", "try_divide"),
    *("size(collect_list(", "sort_array(collect_set(", "(SELECT size(collect", "1 = 2", " R1."),
    *("HAVING EXISTS", "HAVING NOT EXISTS", "HAVING max(", "HAVING count(*) >= (SELECT", "NOT (EXISTS"),
)
"""Constructs of queries, found in their texts."""

LEAST = 0.6
"""The minimum share of incremental refreshes."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Comparisons of a query's table after a step, by refresh mode and by the query's constructs."""

    modes: Counter[str] = field(default_factory=Counter)
    constructs: Counter[str] = field(default_factory=Counter)
    scales: Counter[str] = field(default_factory=Counter)

    def add(self, case: Case, refreshes: Mapping[str, Iterable[str]]) -> None:
        """Add a case with the modes of each table's refreshes."""
        for table, modes in refreshes.items():
            counts = Counter(modes)
            self.modes.update(counts)
            self.scales[case.scale] += counts.total()
            self.constructs.update({c: counts["incremental"] for c in CONSTRUCTS if c in case.queries[table]})

    @property
    def comparisons(self) -> int:
        return self.modes.total()

    @property
    def incremental(self) -> float:
        """The share of comparisons after an incremental refresh."""
        return self.modes["incremental"] / self.comparisons if self.comparisons else 0.0

    @property
    def lines(self) -> list[str]:
        listed = ", ".join(f"{c.strip()} {n}" for c, n in self.constructs.most_common())
        return [
            f"{self.comparisons} comparisons of a query's table after a step, {self.incremental:.0%} of them after an "
            f"incremental refresh; by scale: {', '.join(f'{s} {n}' for s, n in self.scales.items())}",
            f"incremental comparisons by construct: {listed}",
            f"never: {', '.join(c.strip() for c in CONSTRUCTS if not self.constructs[c]) or 'nothing'}",
        ]
