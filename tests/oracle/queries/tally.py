"""How much was compared: a search that compares little, or only what batch made, proves nothing."""

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
"""What queries are made of, as their texts show it."""

LEAST = 0.6
"""The share of refreshes that must have been incremental."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Comparisons of a query's table after a step, by the way of the refresh before it, and by what is in the query."""

    ways: Counter[str] = field(default_factory=Counter)
    constructs: Counter[str] = field(default_factory=Counter)
    scales: Counter[str] = field(default_factory=Counter)

    def add(self, case: Case, refreshes: Mapping[str, Iterable[str]]) -> None:
        """A case, and the ways of each table's refreshes."""
        for table, ways in refreshes.items():
            made = Counter(ways)
            self.ways.update(made)
            self.scales[case.scale] += made.total()
            self.constructs.update({c: made["incremental"] for c in CONSTRUCTS if c in case.queries[table]})

    @property
    def comparisons(self) -> int:
        return self.ways.total()

    @property
    def incremental(self) -> float:
        """The share of comparisons after an incremental refresh."""
        return self.ways["incremental"] / self.comparisons if self.comparisons else 0.0

    @property
    def lines(self) -> list[str]:
        seen = ", ".join(f"{c.strip()} {n}" for c, n in self.constructs.most_common())
        return [
            f"{self.comparisons} comparisons of a query's table after a step, {self.incremental:.0%} of them after an "
            f"incremental refresh; by scale: {', '.join(f'{s} {n}' for s, n in self.scales.items())}",
            f"incremental comparisons by what is in the query: {seen}",
            f"never: {', '.join(c.strip() for c in CONSTRUCTS if not self.constructs[c]) or 'nothing'}",
        ]
