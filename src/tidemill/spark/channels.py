"""The rows of a query's scans, read from its channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField

from tidemill.algebra.declare import CHANGE, NEW, OLD
from tidemill.algebra.operators import Join, JoinKind, Operator, Scan, ScanMode, map_children, select_columns
from tidemill.algebra.pieces import merge_upserts, to_signed_rows
from tidemill.algebra.program import DeclaredQuery
from tidemill.algebra.restrict import restrict_rows
from tidemill.errors import RunFailed
from tidemill.model.change import COUNT, DELETED, Append, Signed, Updates, Upsert
from tidemill.model.view import ConvertedDelta, DeltaChain, Snapshot, SnapshotDiff, View, list_blocks
from tidemill.spark.local.batches import LocalBatch
from tidemill.spark.local.block_reader import is_append_only, is_signed
from tidemill.spark.merge import ORDER, LookupKeys
from tidemill.spark.view_reader import ViewReader

Views = Mapping[str, View]

_BASE, _SINCE = " (base)", " (since)"
"""Suffixes of a channel's name: its base, and the deltas since."""


class ChannelScans:
    """The rows of a query's scans, from the run's views."""

    def __init__(self, reader: ViewReader, query: DeclaredQuery, inputs: Views) -> None:
        self._reader = reader
        self._query = query
        self._inputs = dict(inputs)

    def list_deferred_channels(self) -> set[str]:
        """The channels whose changes this run does not consume."""
        return {c for c in self._query.channels if c + CHANGE not in self._inputs}

    def list_changed_channels(self) -> set[str]:
        return {
            c
            for c in self._query.channels
            if c not in self.list_deferred_channels() and not _is_empty(self._inputs[c + CHANGE])
        }

    def is_local(self, scan: Scan) -> bool:
        """Whether the rows are available locally, small and in the form that the scan needs."""
        view = self._inputs[_format_argument(scan)]
        match view.chain if isinstance(view, ConvertedDelta) else view:
            case Snapshot() as content:
                if scan.channel.endswith(_SINCE):
                    return self._reader.is_local(content)
                is_plain = is_append_only(content) or is_signed(content)
                return is_plain and self._reader.is_local(content, is_snapshot=True)
            case DeltaChain(updates=Upsert()) as changes:
                return scan.mode is ScanMode.TOUCHED and self._reader.is_local(changes)
            case DeltaChain(updates=Append() | Signed()) as changes:
                return scan.mode is ScanMode.CHANGE and self._reader.is_local(changes)
            case _:
                return False

    def read_local(self, scan: Scan) -> LocalBatch | None:
        """The rows of a scan, if they are few and the driver can read them without Spark."""
        if not self.is_local(scan):
            return None
        view = self._inputs[_format_argument(scan)]
        match view.chain if isinstance(view, ConvertedDelta) else view:
            case Snapshot() as content:
                is_since = scan.channel.endswith(_SINCE)
                reader = self._reader.local_reader
                rows = reader.read_deltas(content) if is_since else reader.read_content(content, scan.columns)
            case DeltaChain() as change:
                rows = _complete_rows(self._reader.local_reader.read_change(change), change.updates)
            case _:
                return None
        return rows and rows.select_columns(scan.columns)

    def find_by_keys(self, scan: Scan, keys: pa.Table, on: Sequence[tuple[str, str]]) -> LocalBatch | None:
        """The rows of a content that match one of the keys, if the driver can look them up."""
        return self._reader.local_reader.find_by_keys(self._get_content_view(scan), keys, on, scan.columns)

    def expand_contents(self, op: Operator) -> Operator:
        """The operator with contents that consist of a base and small upserts replaced by equivalent operators.

        Spark then plans reading them together with everything else, and keys are looked up before the merge.
        """
        match op:
            case Join(left=Scan() as scan, kind=JoinKind.SEMI, condition=None, null_safe=True):
                return restrict_rows(self._expand_scan(scan), self.expand_contents(op.right), op.keys)
            case Scan(mode=ScanMode.CHANGE):
                return self._expand_change(op)
            case Scan():
                return self._expand_scan(op)
        return map_children(op, self.expand_contents)

    def _expand_change(self, scan: Scan) -> Operator:
        """A small change that is stored by key, as equivalent operators."""
        change = self._inputs[_format_argument(scan)]
        if (
            not isinstance(change, DeltaChain)
            or not isinstance(change.updates, Upsert)
            or not self._reader.is_local(change)
        ):
            return scan
        key = change.updates.key
        names = tuple(dict.fromkeys((*(c for c in scan.columns if c != COUNT), *key)))
        touched = Scan(scan.channel, (*names, DELETED), ScanMode.TOUCHED, key)
        content = self._expand_scan(Scan(scan.channel, names, ScanMode.OLD))
        before = restrict_rows(content, select_columns(touched, key), tuple((k, k) for k in key))
        return select_columns(to_signed_rows(before, touched), scan.columns)

    def _expand_scan(self, scan: Scan) -> Operator:
        view = self._inputs[_format_argument(scan)]
        if not isinstance(view, Snapshot):
            return scan
        deltas = tuple(d for d in view.deltas if d.files)
        kinds = {(d.updates, d.schema) for d in deltas}
        updates = deltas[0].updates if len(kinds) == 1 else None
        if not isinstance(updates, Upsert) or not self._reader.is_local(replace(view, base=None)):
            return scan
        names = tuple(n for n in view.schema.names if n in scan.columns or n in updates.key)
        base = Scan(scan.channel + _BASE, names, scan.mode)
        deltas_scan = Scan(scan.channel + _SINCE, (*names, DELETED, ORDER), scan.mode)
        self._inputs |= {
            _format_argument(base): replace(view, deltas=()),
            _format_argument(deltas_scan): replace(view, base=None),
        }
        return select_columns(merge_upserts(base, deltas_scan, updates.key), scan.columns)

    def __call__(self, scan: Scan, lookup: LookupKeys | None = None) -> DataFrame:
        match scan.mode:
            case ScanMode.NEW | ScanMode.OLD if scan.channel.endswith(_SINCE):
                return self._reader.read_ordered_deltas(self._get_content_view(scan), lookup)
            case ScanMode.NEW | ScanMode.OLD:
                return self._reader.read_snapshot(self._get_content_view(scan), lookup, scan.columns)
            case ScanMode.CHANGE:
                return self._read_change(scan)
            case ScanMode.TOUCHED:
                after = self._get_content_view(Scan(scan.channel, scan.columns, ScanMode.NEW))
                return self._reader.read_touched_rows(self._get_change_view(scan), scan.keys, after)

    def _get_content_view(self, scan: Scan) -> Snapshot:
        view = self._inputs[_format_argument(scan)]
        assert isinstance(view, Snapshot)
        return view

    def _get_change_view(self, scan: Scan) -> DeltaChain | SnapshotDiff | ConvertedDelta:
        view = self._inputs[_format_argument(scan)]
        assert not isinstance(view, Snapshot)
        return view

    def _read_change(self, scan: Scan) -> DataFrame:
        view = self._get_change_view(scan)
        if scan.append_only and isinstance(view, SnapshotDiff):
            raise RunFailed(
                f"channel {scan.channel} is append-only, but its content was replaced; refresh this table in batch"
            )
        before = self._inputs[scan.channel + OLD]
        assert isinstance(before, Snapshot)
        return self._reader.read_signed_rows(view, before)


def _format_argument(scan: Scan) -> str:
    return scan.channel + {ScanMode.NEW: NEW, ScanMode.OLD: OLD}.get(scan.mode, CHANGE)


def _complete_rows(rows: LocalBatch | None, updates: Updates) -> LocalBatch | None:
    """The rows of a change with the columns that scans expect."""
    if rows is None:
        return None
    match updates:
        case Append():
            return rows.add_column(
                StructField(COUNT, LongType()), pa.repeat(pa.scalar(1, pa.int64()), rows.table.num_rows)
            )
        case Upsert():
            marks = rows.table.column(DELETED).fill_null(False)
            return rows.select_columns([n for n in rows.struct.names if n != DELETED]).add_column(
                rows.struct[DELETED], marks
            )
        case _:
            return rows


def _is_empty(view: View) -> bool:
    if isinstance(view, SnapshotDiff):
        return False
    return not any(b.files for b in list_blocks(view.chain if isinstance(view, ConvertedDelta) else view))
