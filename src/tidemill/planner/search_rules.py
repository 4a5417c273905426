"""What keeps the search small. Each rule can be left out; a planner that finds no plan leaves out some itself.

Two act on what exists, before any search: `old_blocks` and `chains` (`block_inventory`). The others act on what
could be made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class SearchRules:
    """Which rules are in force."""

    old_blocks: bool = True  # what lies before the last base that everybody has passed is let go
    chains: bool = True  # deltas that nobody tells apart any more are one
    propagation: bool = True  # bounds downstream hold upstream, as far as they concern what is there
    overkill: bool = True  # nothing newer is made where something new enough exists
    long_term: bool = True  # of two blocks that could be made, the later one: it lasts longer
    loose_ends: bool = True  # no delta is made that starts where nothing ends and nobody stands


ALL = SearchRules()
NONE = SearchRules(False, False, False, False, False, False)


def relax_rules(rules: SearchRules) -> Iterator[SearchRules]:
    """The rules, then fewer and fewer of those that can hide a plan that exists."""
    yield rules
    for name in ("overkill", "long_term", "propagation", "loose_ends", "chains"):
        if getattr(rules, name):
            rules = replace(rules, **{name: False})
            yield rules
