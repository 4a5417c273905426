"""Rules that keep the search small. Each rule can be disabled; a planner that finds no plan disables some.

`chains` acts on existing blocks, the others on blocks that could be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class SearchRules:
    """The rules that are enabled."""

    chains: bool = True  # read deltas that no consumer distinguishes as one block
    propagation: bool = True  # apply downstream bounds upstream, as far as they concern existing pathways
    overkill: bool = True  # write no newer block where an existing one is new enough
    long_term: bool = True  # of two blocks that could be written, take the later one: it stays fresh longer
    loose_ends: bool = True  # write no delta that starts where no block ends and no consumer resumes


ALL = SearchRules()
NONE = SearchRules(False, False, False, False, False)


def relax_rules(rules: SearchRules) -> Iterator[SearchRules]:
    """Yield the rules, then fewer and fewer of those that can hide an existing plan."""
    yield rules
    for name in ("overkill", "long_term", "propagation", "loose_ends", "chains"):
        if getattr(rules, name):
            rules = replace(rules, **{name: False})
            yield rules
