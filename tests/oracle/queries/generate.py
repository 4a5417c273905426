"""Random queries of the supported grammar, over input channels and over each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from random import Random

from tests.oracle.queries.case import Case, Scale
from tests.oracle.queries.columns import Columns
from tests.oracle.queries.histories import build_inputs, channels, histories
from tests.oracle.queries.shapes import query
from tests.oracle.queries.writer import Query, QueryWriter

DEPTHS = (0, 0, 1, 1, 2)
"""Depths of sub-queries: deep queries cost much and rarely find more."""

SCALES = (*(Scale.SMALL,) * 6, Scale.LARGE, Scale.HUGE)
LARGE_COST_FACTOR = 4
"""Cost factor of large cases; they have fewer queries by this factor."""


def case(seed: int, queries: int, steps: int, depths: Sequence[int] = DEPTHS, scales: Sequence[Scale] = SCALES) -> Case:
    """Build the case of a seed: queries of these depths over channels with a history of this many steps.

    A case is much larger than what Hypothesis draws choice by choice: the first would be the simplest case,
    and most others too long. So Hypothesis draws the seed, and `reduce` reduces a failing case.
    """
    random = Random(seed)
    drawn_channels = channels(random)
    scale = random.choice(scales)
    many = queries if scale is Scale.SMALL else queries // LARGE_COST_FACTOR
    tables = declarations(random, {name: columns for name, (_, columns) in drawn_channels.items()}, many, depths)
    return Case(tables, build_inputs(drawn_channels), histories(random, drawn_channels, steps), scale)


def one_query(random: Random, tables: Mapping[str, Columns], depths: Sequence[int] = DEPTHS) -> Query:
    """One query over these tables, sometimes with names in upper case."""
    drawn = query(QueryWriter(random, tables, count(1), count(1)), random.choice(depths))
    return replace(drawn, text=in_other_case(random, drawn.text)) if random.random() < 0.15 else drawn


def in_other_case(random: Random, text: str) -> str:
    """The query with some table and column names in upper case, which is equivalent.

    >>> in_other_case(Random(1), "SELECT r1.k AS k FROM t r1")
    'SELECT R1.K AS k FROM t r1'
    """

    def maybe(match: re.Match[str]) -> str:
        return match[0].upper() if random.random() < 0.6 else match[0]

    return re.sub(r"\br\d+\.\w+\b|(?<=FROM )\w+(?= r\d)|(?<=JOIN )\w+(?= r\d)", maybe, text)


def declarations(
    random: Random, inputs: Mapping[str, Columns], many: int, depths: Sequence[int] = DEPTHS
) -> dict[str, str]:
    """The texts of several tables by name, in the order in which to run them; later ones may read earlier ones."""
    tables = dict(inputs)
    texts: dict[str, str] = {}
    for number in range(many):
        drawn = one_query(random, tables if random.random() < 0.25 else inputs, depths)
        name = f"q{number}"
        texts[name], tables[name] = drawn.text, drawn.columns
    return texts
