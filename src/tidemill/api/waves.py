"""Propagates waves through tasks: the results of a task for an event are numbered in the event's wave.

For a query this is transparent: the tag of the event is an additional column. A function gets data frames, and may keep
the column `wave` like others; one that drops it is called separately for each event. Data frames are transformed by
their methods, so this module does not depend on Spark.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import sqlglot
from sqlglot import exp

from tidemill.model.wave_steps import WAVE

FROM, PLACE, SERIAL, RESULTS = "_from", "_place", "_serial", "_results"
"""Columns: the tag of a row's source event, the row's position, its number, and the number of rows of the event."""

_POSITIONED = f"monotonically_increasing_id() AS {PLACE}"
_NUMBERED = (
    f"row_number() OVER (PARTITION BY {FROM} ORDER BY {PLACE}) AS {SERIAL}",
    f"count(*) OVER (PARTITION BY {FROM}) AS {RESULTS}",
)
_TAG = f"concat({FROM}, '.', {SERIAL}, if({SERIAL} = {RESULTS}, '!', '')) AS {WAVE}"
_INTERNAL = (FROM, PLACE, SERIAL, RESULTS)


def tag_query(query: str, channel: str) -> str:
    """Return a query whose rows have tags derived from those of a channel's events; `ValueError` if impossible."""
    tree = sqlglot.parse_one(query, dialect="spark")
    table = _find_event_table(tree, channel)
    assert isinstance(tree, exp.Select)
    tree.set("expressions", [_exclude_tag(e, table) for e in tree.expressions])
    tree.select(exp.column(WAVE, table=table).as_(FROM), copy=False)
    return (
        f"WITH _made AS ({tree.sql(dialect='spark')}), _all AS (SELECT *, {_POSITIONED} FROM _made), "
        f"_counted AS (SELECT *, {', '.join(_NUMBERED)} FROM _all) "
        f"SELECT * EXCEPT ({', '.join(_INTERNAL)}), {_TAG} FROM _counted"
    )


def _find_event_table(tree: exp.Expr, channel: str) -> str:
    """Return the name under which the query reads the events of a channel, if each of its rows comes from one event."""
    if not isinstance(tree, exp.Select) or any(tree.args.get(part) for part in _COMBINING) or tree.find(exp.AggFunc):
        raise ValueError(
            "a wave is propagated by a SELECT that computes each row from one event: "
            "without UNION, GROUP BY, DISTINCT, LIMIT and aggregates; use wave windows to combine events"
        )
    sources = [tree.args.get("from_"), *tree.args.get("joins", [])]
    tables = [s.this for s in sources if s is not None and isinstance(s.this, exp.Table) and s.this.name == channel]
    if len(tables) != 1:
        raise ValueError(f"a wave is propagated by a query that reads {channel!r} once, in its own FROM or JOIN")
    if WAVE in tree.named_selects:
        raise ValueError(f"the column {WAVE!r} of the result is the lineage tag of each row; leave it out")
    return str(tables[0].alias_or_name)


_COMBINING = ("group", "having", "distinct", "limit", "offset", "with_")


def _exclude_tag(selected: exp.Expr, table: str) -> exp.Expr:
    """Exclude the tag from a star over the events."""
    star = selected.this if isinstance(selected, exp.Column) and selected.table == table else selected
    if isinstance(star, exp.Star):
        star.set("except_", [exp.to_identifier(WAVE)])
    return selected


def tag_results(call: Any, events: str, /, **given: Any) -> dict[str, Any] | Any:
    """Return a function's results, numbered in the waves of the events that it gets under that argument.

    If it keeps their tags, it is called once. Otherwise it is called separately for each event, to which its results
    then belong.
    """
    result = call(**given)
    frames = _to_named_frames(result)
    if not all(WAVE in frame.columns for frame in frames.values()):
        tags = sorted(row[0] for row in given[events].select(WAVE).distinct().collect())
        alone = [_call_for_event(tag, call, events, given) for tag in tags]
        frames = (
            {name: reduce(lambda some, more: some.unionByName(more), (made[name] for made in alone)) for name in frames}
            if alone
            else _add_tag(frames)
        )
    numbered = {name: _number_rows(frame) for name, frame in frames.items()}
    return numbered if isinstance(result, Mapping) else numbered[_ONLY]


_ONLY = "result"


def _to_named_frames(result: Any) -> dict[str, Any]:
    return dict(result) if isinstance(result, Mapping) else {_ONLY: result}


def _call_for_event(tag: str, call: Any, events: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    alone = arguments[events].where(f"{WAVE} = {_quote_text(tag)}")
    return _add_tag(_to_named_frames(call(**{**arguments, events: alone})), _quote_text(tag))


def _add_tag(frames: Mapping[str, Any], tag: str = "CAST(NULL AS STRING)") -> dict[str, Any]:
    return {n: f if WAVE in f.columns else f.selectExpr("*", f"{tag} AS {WAVE}") for n, f in frames.items()}


def _quote_text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _number_rows(frame: Any) -> Any:
    others = [f"`{name}`" for name in frame.columns if name != WAVE]
    placed = frame.selectExpr(*others, f"{WAVE} AS {FROM}", _POSITIONED)
    return placed.selectExpr("*", *_NUMBERED).selectExpr(*others, _TAG)
