"""The views that a run of a declared query reads, and its scans as operators over their blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.algebra.operators import Join, JoinKind, Operator, Scan, ScanMode, map_children, select_columns
from tidemill.algebra.program import DeclaredQuery, name_input
from tidemill.algebra.restrict import restrict_rows
from tidemill.algebra.views import ViewExpansion
from tidemill.errors import RunFailed
from tidemill.model.view import ConvertedDelta, DeltaChain, Snapshot, SnapshotDiff, View, list_blocks

Views = Mapping[str, View]


@dataclass(frozen=True, slots=True)
class QueryViews:
    """The views of a query's channels: their contents now and before, and their changes."""

    query: DeclaredQuery
    views: Views
    expansion: ViewExpansion

    def list_deferred_channels(self) -> set[str]:
        """The channels whose changes this run does not consume."""
        return {c for c in self.query.channels if name_input(c, ScanMode.CHANGE) not in self.views}

    def list_changed_channels(self) -> set[str]:
        changes = {c: self.views.get(name_input(c, ScanMode.CHANGE)) for c in self.query.channels}
        return {c for c, view in changes.items() if view is not None and not _is_empty(view)}

    def expand_scans(self, op: Operator) -> Operator:
        """The operator over the rows of blocks; keys are looked up in blocks before those are merged."""
        match op:
            case Join(left=Scan() as scan, kind=JoinKind.SEMI, condition=None, null_safe=True):
                return restrict_rows(self._expand_scan(scan), self.expand_scans(op.right), op.keys)
            case Scan():
                return self._expand_scan(op)
        return map_children(op, self.expand_scans)

    def _expand_scan(self, scan: Scan) -> Operator:
        match scan.mode:
            case ScanMode.NEW | ScanMode.OLD:
                content = self._get_content(scan.channel, scan.mode)
                rows = self.expansion.expand_snapshot(content)
            case ScanMode.CHANGE:
                rows = self.expansion.expand_signed(
                    self._get_change(scan), self._get_content(scan.channel, ScanMode.OLD)
                )
            case ScanMode.TOUCHED:
                after = self._get_content(scan.channel, ScanMode.NEW)
                rows = self.expansion.expand_touched(self._get_change(scan), scan.keys, after)
        return rows if rows.columns == scan.columns else select_columns(rows, scan.columns)

    def _get_content(self, channel: str, mode: ScanMode) -> Snapshot:
        view = self.views[name_input(channel, mode)]
        assert isinstance(view, Snapshot)
        return view

    def _get_change(self, scan: Scan) -> DeltaChain | SnapshotDiff | ConvertedDelta:
        view = self.views[name_input(scan.channel, ScanMode.CHANGE)]
        assert not isinstance(view, Snapshot)
        if scan.append_only and isinstance(view, SnapshotDiff):
            raise RunFailed(
                f"channel {scan.channel} is append-only, but its content was replaced; refresh this table in batch"
            )
        return view


def _is_empty(view: View) -> bool:
    if isinstance(view, SnapshotDiff):
        return False
    return not any(b.files for b in list_blocks(view.chain if isinstance(view, ConvertedDelta) else view))
