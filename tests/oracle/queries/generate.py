"""Random queries of the supported grammar, over input channels and over each other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from hypothesis import strategies as st
from tests.oracle.queries.columns import Columns
from tests.oracle.queries.pen import Pen, Query
from tests.oracle.queries.shapes import query

DEEPEST = 2
"""How many queries deep a query may read, below itself."""


@st.composite
def queries(draw: st.DrawFn, tables: Mapping[str, Columns]) -> Query:
    """One query over these tables."""
    return query(Pen(draw, tables, count(1)), draw(st.integers(0, DEEPEST)))


@st.composite
def declarations(draw: st.DrawFn, inputs: Mapping[str, Columns], least: int, most: int) -> dict[str, str]:
    """The texts of several tables by name, in the order in which to run them; later ones may read earlier ones."""
    tables = dict(inputs)
    texts: dict[str, str] = {}
    for number in range(draw(st.integers(least, most))):
        reach = tables if draw(st.integers(0, 3)) == 3 else inputs
        made = draw(queries(reach))
        name = f"q{number}"
        texts[name], tables[name] = made.text, made.columns
    return texts
