"""Random queries of the supported grammar, over input channels and over each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from random import Random

from tests.oracle.queries.case import Case, Scale
from tests.oracle.queries.columns import Columns
from tests.oracle.queries.histories import channels, histories, inputs_of
from tests.oracle.queries.pen import Pen, Query
from tests.oracle.queries.shapes import query

DEPTHS = (0, 0, 1, 1, 2)
"""How many queries deep a query may read, below itself: what is deep costs much and rarely finds more."""

SCALES = (*(Scale.SMALL,) * 6, Scale.LARGE, Scale.HUGE)
DEARER = 4
"""So many times as dear as others is what counts as large, and so many times fewer are the queries."""


def case(seed: int, queries: int, steps: int, depths: Sequence[int] = DEPTHS, scales: Sequence[Scale] = SCALES) -> Case:
    """The case of a seed: so many queries, so deep, over channels with a history of so many steps.

    A case is far larger than what Hypothesis draws choice by choice: there the first would be the simplest of all,
    and most of the rest too long. So Hypothesis draws the seed, and `reduce` makes a failing case small.
    """
    random = Random(seed)
    found = channels(random)
    scale = random.choice(scales)
    many = queries if scale is Scale.SMALL else queries // DEARER
    tables = declarations(random, {name: columns for name, (_, columns) in found.items()}, many, depths)
    return Case(tables, inputs_of(found), histories(random, found, steps), scale)


def one_query(random: Random, tables: Mapping[str, Columns], depths: Sequence[int] = DEPTHS) -> Query:
    """One query over these tables, its names perhaps in another case."""
    made = query(Pen(random, tables, count(1), count(1)), random.choice(depths))
    return replace(made, text=in_other_case(random, made.text)) if random.random() < 0.15 else made


def in_other_case(random: Random, text: str) -> str:
    """The query with some names of tables and of their columns in capitals, which mean the same.

    >>> in_other_case(Random(1), "SELECT r1.k AS k FROM t r1")
    'SELECT R1.K AS k FROM t r1'
    """

    def maybe(found: re.Match[str]) -> str:
        return found[0].upper() if random.random() < 0.6 else found[0]

    return re.sub(r"\br\d+\.\w+\b|(?<=FROM )\w+(?= r\d)|(?<=JOIN )\w+(?= r\d)", maybe, text)


def declarations(
    random: Random, inputs: Mapping[str, Columns], many: int, depths: Sequence[int] = DEPTHS
) -> dict[str, str]:
    """The texts of several tables by name, in the order in which to run them; later ones may read earlier ones."""
    tables = dict(inputs)
    texts: dict[str, str] = {}
    for number in range(many):
        made = one_query(random, tables if random.random() < 0.25 else inputs, depths)
        name = f"q{number}"
        texts[name], tables[name] = made.text, made.columns
    return texts
