"""The channels of a query as Spark sees them: the rows of its scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField

from tidemill.algebra.declare import CHANGE, NEW, OLD
from tidemill.algebra.operators import At, Join, JoinKind, Operator, Scan, rebuilt, select
from tidemill.algebra.pieces import replaced, upserted
from tidemill.algebra.program import Query
from tidemill.algebra.restrict import restrict
from tidemill.errors import RunFailed
from tidemill.model.change import COUNT, DELETED, Append, Signed, Updates, Upsert
from tidemill.model.view import Chain, Converted, Difference, Snapshot, View, blocks_of
from tidemill.spark.local.batches import Held
from tidemill.spark.local.block_reader import is_counted, is_plain
from tidemill.spark.merge import ORDER, Keys
from tidemill.spark.view_reader import Reader

Views = Mapping[str, View]

_BASE, _SINCE = " (base)", " (since)"
"""Behind a channel's name: its base, and the deltas since."""


class Channels:
    """The rows of a query's scans, from the views that the run was given."""

    def __init__(self, reader: Reader, query: Query, inputs: Views) -> None:
        self._reader = reader
        self._query = query
        self._inputs = dict(inputs)

    def held(self) -> set[str]:
        """The channels whose changes this run leaves for later."""
        return {c for c in self._query.channels if c + CHANGE not in self._inputs}

    def changed(self) -> set[str]:
        return {c for c in self._query.channels if c not in self.held() and not _empty(self._inputs[c + CHANGE])}

    def at_hand(self, scan: Scan) -> bool:
        """Are the rows there, small and in the form that is asked for?"""
        view = self._inputs[_argument(scan)]
        match view.chain if isinstance(view, Converted) else view:
            case Snapshot() as content:
                if scan.channel.endswith(_SINCE):
                    return self._reader.at_hand(content)
                kept = is_plain(content) or is_counted(content)
                return kept and self._reader.at_hand(content, whole=True)
            case Chain(updates=Upsert()) as changes:
                return scan.at is At.TOUCHED and self._reader.at_hand(changes)
            case Chain(updates=Append() | Signed()) as changes:
                return scan.at is At.CHANGE and self._reader.at_hand(changes)
            case _:
                return False

    def here(self, scan: Scan) -> Held | None:
        """The rows of a scan, if they are few and the driver can have them without Spark."""
        if not self.at_hand(scan):
            return None
        view = self._inputs[_argument(scan)]
        match view.chain if isinstance(view, Converted) else view:
            case Snapshot() as content:
                since = scan.channel.endswith(_SINCE)
                holder = self._reader.holder
                rows = holder.since(content) if since else holder.content(content, scan.columns)
            case Chain() as change:
                rows = _completed(self._reader.holder.change(change), change.updates)
            case _:
                return None
        return rows and rows.select(scan.columns)

    def found(self, scan: Scan, keys: pa.Table, on: Sequence[tuple[str, str]]) -> Held | None:
        """The rows of a content that agree with some of the keys, if the driver can look them up."""
        return self._reader.holder.found(self._content(scan), keys, on, scan.columns)

    def unfolded(self, op: Operator) -> Operator:
        """The operator with contents that are kept as a base and small upserts as what they mean in operators.

        Then Spark plans reading them together with all else, and few keys are looked up before anything is merged.
        """
        match op:
            case Join(left=Scan() as scan, kind=JoinKind.SEMI, condition=None, safe=True):
                return restrict(self._unfolded(scan), self.unfolded(op.right), op.keys)
            case Scan(at=At.CHANGE):
                return self._replaced(op)
            case Scan():
                return self._unfolded(op)
        return rebuilt(op, self.unfolded)

    def _replaced(self, scan: Scan) -> Operator:
        """A small change that is kept by key, as what it means in operators."""
        change = self._inputs[_argument(scan)]
        if not isinstance(change, Chain) or not isinstance(change.updates, Upsert) or not self._reader.at_hand(change):
            return scan
        key = change.updates.key
        names = tuple(dict.fromkeys((*(c for c in scan.columns if c != COUNT), *key)))
        touched = Scan(scan.channel, (*names, DELETED), At.TOUCHED, key)
        content = self._unfolded(Scan(scan.channel, names, At.OLD))
        before = restrict(content, select(touched, key), tuple((k, k) for k in key))
        return select(replaced(before, touched), scan.columns)

    def _unfolded(self, scan: Scan) -> Operator:
        view = self._inputs[_argument(scan)]
        if not isinstance(view, Snapshot):
            return scan
        deltas = tuple(d for d in view.deltas if d.files)
        kinds = {(d.updates, d.schema) for d in deltas}
        updates = deltas[0].updates if len(kinds) == 1 else None
        if not isinstance(updates, Upsert) or not self._reader.at_hand(replace(view, base=None)):
            return scan
        names = tuple(n for n in view.schema.names if n in scan.columns or n in updates.key)
        base = Scan(scan.channel + _BASE, names, scan.at)
        since = Scan(scan.channel + _SINCE, (*names, DELETED, ORDER), scan.at)
        self._inputs |= {_argument(base): replace(view, deltas=()), _argument(since): replace(view, base=None)}
        return select(upserted(base, since, updates.key), scan.columns)

    def __call__(self, scan: Scan, only: Keys | None = None) -> DataFrame:
        match scan.at:
            case At.NEW | At.OLD if scan.channel.endswith(_SINCE):
                return self._reader.ordered(self._content(scan), only)
            case At.NEW | At.OLD:
                return self._reader.snapshot(self._content(scan), only, scan.columns)
            case At.CHANGE:
                return self._change(scan)
            case At.TOUCHED:
                after = self._content(Scan(scan.channel, scan.columns, At.NEW))
                return self._reader.touched(self._changes(scan), scan.keys, after)

    def _content(self, scan: Scan) -> Snapshot:
        found = self._inputs[_argument(scan)]
        assert isinstance(found, Snapshot)
        return found

    def _changes(self, scan: Scan) -> Chain | Difference | Converted:
        found = self._inputs[_argument(scan)]
        assert not isinstance(found, Snapshot)
        return found

    def _change(self, scan: Scan) -> DataFrame:
        view = self._changes(scan)
        if scan.append and isinstance(view, Difference):
            raise RunFailed(
                f"channel {scan.channel} only grows, but its content was replaced; refresh this table in batch"
            )
        before = self._inputs[scan.channel + OLD]
        assert isinstance(before, Snapshot)
        return self._reader.signed(view, before)


def _argument(scan: Scan) -> str:
    return scan.channel + {At.NEW: NEW, At.OLD: OLD}.get(scan.at, CHANGE)


def _completed(rows: Held | None, updates: Updates) -> Held | None:
    """The rows of a change as scans show them."""
    if rows is None:
        return None
    match updates:
        case Append():
            return rows.plus(StructField(COUNT, LongType()), pa.repeat(pa.scalar(1, pa.int64()), rows.table.num_rows))
        case Upsert():
            marks = rows.table.column(DELETED).fill_null(False)
            return rows.select([n for n in rows.struct.names if n != DELETED]).plus(rows.struct[DELETED], marks)
        case _:
            return rows


def _empty(view: View) -> bool:
    if isinstance(view, Difference):
        return False
    return not any(b.files for b in blocks_of(view.chain if isinstance(view, Converted) else view))
