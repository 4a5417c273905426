"""Views, and the scans of a query that reads them, as operators over the rows of blocks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from tidemill.algebra import merge
from tidemill.algebra import operators as ops
from tidemill.algebra.program import DeclaredQuery, name_input
from tidemill.algebra.restrict import exclude_rows, restrict_rows
from tidemill.errors import EngineError, RunFailed
from tidemill.model.block import Block, BlockKind
from tidemill.model.change import DELETED, Append, Patch, Signed, Updates, Upsert
from tidemill.model.evolution import find_type_changes
from tidemill.model.schema import Schema
from tidemill.model.view import ConvertedDelta, DeltaChain, Snapshot, SnapshotDiff, View, list_blocks

Change = DeltaChain | SnapshotDiff | ConvertedDelta

SmallChangeTest = Callable[[int, int], bool]
"""Given the rows of a content and of its change: whether the change is small."""


@dataclass(frozen=True, slots=True)
class ViewExpansion:
    """Expands views to operators; `is_small` decides whether the untouched rows of a content are grouped."""

    is_small: SmallChangeTest

    def expand_view(self, view: View) -> ops.Operator:
        match view:
            case Snapshot():
                return self.expand_snapshot(view)
            case DeltaChain():
                return self.expand_chain(view)
            case SnapshotDiff():
                return self._diff_snapshots(view.updates, view)
            case ConvertedDelta():
                return self.expand_signed(view)

    def expand_snapshot(self, view: Snapshot) -> ops.Operator:
        """The content: the base with the deltas merged in."""
        filled = [d for d in view.deltas if d.files]
        appended = list(takewhile(lambda d: isinstance(d.updates, Append), filled))
        plain = [*([view.base] if view.base is not None and view.base.files else []), *appended]
        merged = filled[len(appended) :]
        content = _scan_blocks(plain, view.schema)
        is_small = self.is_small(sum(b.rows for b in plain), sum(b.rows for b in merged))
        for updates, group in groupby(merged, key=lambda d: d.updates):
            content = merge.merge_deltas(content, _scan_deltas(list(group), updates, view.schema), is_small=is_small)
        return content

    def expand_chain(self, view: DeltaChain) -> ops.Operator:
        """The change as a single delta of its merge kind."""
        filled = [d for d in view.deltas if d.files]
        if len(filled) < 2 or isinstance(view.updates, Append):
            return _scan_blocks(filled, view.updates.build_delta_schema(view.schema), is_change=True)
        return merge.chain_deltas(_scan_deltas(filled, view.updates, view.schema, is_change=True))

    def expand_signed(self, view: Change, before: Snapshot | None = None) -> ops.Operator:
        """A change as signed rows. If it is stored by key, the rows that it replaces are looked up in `before`."""
        if isinstance(view, SnapshotDiff):
            return self._diff_snapshots(Signed(), view)
        chain = view.chain if isinstance(view, ConvertedDelta) else view
        rows = self.expand_chain(chain)
        match chain.updates:
            case Append():
                return merge.count_rows(rows, 1)
            case Signed():
                return rows
        if isinstance(view, ConvertedDelta):
            changed = view
        elif before is not None:
            changed = ConvertedDelta(chain, before)
        else:
            problem = "is stored by key; its previous content is needed to compute signed rows"
            raise EngineError(f"the change of {chain.channel} {problem}")
        old = self.expand_snapshot(changed.before)
        if isinstance(chain.updates, Patch):
            return merge.sign_patch_rows(chain.updates, old, rows)
        keys, pairs = ops.select_columns(rows, chain.updates.key), ops.pair_columns(chain.updates.key)
        if isinstance(chain.updates, Upsert):
            new = merge.drop_deletions(rows, chain.schema.names)
        else:
            new = restrict_rows(self.expand_snapshot(changed.after), keys, pairs)
        return merge.sign_contents(restrict_rows(old, keys, pairs), new)

    def expand_touched(self, view: Change, key: tuple[str, ...], before: Snapshot, after: Snapshot) -> ops.Operator:
        """A change by key: the new row of each key in it, or `_deleted`."""
        chain = view.chain if isinstance(view, ConvertedDelta) else view
        if isinstance(chain, SnapshotDiff):
            return self._diff_snapshots(Upsert(key), chain)
        rows = self.expand_chain(chain)
        if isinstance(chain.updates, Upsert):
            return ops.add_columns(rows, {DELETED: f"COALESCE({DELETED}, FALSE)"})
        if isinstance(chain.updates, Patch):  # a patch does not name the keys that it changes
            rows = self.expand_signed(view, before)
        keys, pairs = ops.select_distinct(rows, key), ops.pair_columns(key)
        existing = restrict_rows(self.expand_snapshot(after), keys, pairs)
        deleted = exclude_rows(keys, existing, pairs)
        marked = ops.add_columns(existing, {DELETED: "FALSE"})
        return ops.union_by_name(marked, ops.add_columns(deleted, {DELETED: "TRUE"}))

    def _diff_snapshots(self, updates: Updates, view: SnapshotDiff) -> ops.Operator:
        if changes := find_type_changes(view.before.schema, view.after.schema):
            raise RunFailed(
                f"channel {view.after.channel} was replaced, which changed {' and '.join(changes)}, so its old and new "
                "rows cannot be compared; run its reader in batch: tidemill run FLOW --variant batch"
            )
        before, after = self.expand_snapshot(view.before), self.expand_snapshot(view.after)
        return merge.diff_contents(updates, before, after, view.after.schema, view.after.channel)


def _scan_deltas(blocks: Sequence[Block], updates: Updates, schema: Schema, *, is_change: bool = False) -> merge.Deltas:
    rows = _scan_blocks(blocks, updates.build_delta_schema(schema), is_numbered=True, is_change=is_change)
    return merge.Deltas(rows, updates, schema, len(blocks))


def _scan_blocks(
    blocks: Sequence[Block], schema: Schema, *, is_numbered: bool = False, is_change: bool = False
) -> ops.Operator:
    """The rows of blocks in these columns, in a single scan if their files have one schema."""
    names = (*schema.names, ops.ORDER) if is_numbered else schema.names
    scans: list[ops.Operator] = []
    first = 1
    for stored, group in groupby(blocks, key=_get_stored_schema):
        stored_blocks = tuple(group)
        files = tuple(f.path for b in stored_blocks for f in b.files)
        scans.append(ops.BlockScan(files, names, schema, stored, stored_blocks, first, is_change))
        first += len(stored_blocks)
    if not scans:
        return ops.BlockScan((), names, schema, schema, (), is_change=is_change)
    return scans[0] if len(scans) == 1 else ops.Union(tuple(scans))


def _get_stored_schema(block: Block) -> Schema:
    return block.schema if block.kind is BlockKind.BASE else block.updates.build_delta_schema(block.schema)


Views = Mapping[str, View]


@dataclass(frozen=True, slots=True)
class QueryViews:
    """The views of a query's channels: their contents now and before, and their changes."""

    query: DeclaredQuery
    views: Views
    expansion: ViewExpansion

    def list_deferred_channels(self) -> set[str]:
        """The channels whose changes this run does not consume."""
        return {c for c in self.query.channels if name_input(c, ops.ScanMode.CHANGE) not in self.views}

    def list_changed_channels(self) -> set[str]:
        names = {c: name_input(c, ops.ScanMode.CHANGE) for c in self.query.channels}
        return {c for c, name in names.items() if name in self.views and not _is_empty(self.views[name])}

    def expand_scans(self, op: ops.Operator) -> ops.Operator:
        """The operator over the rows of blocks; keys are looked up in blocks before those are merged."""
        match op:
            case ops.Join(left=ops.Scan() as scan, kind=ops.JoinKind.SEMI, condition=None, null_safe=True):
                return restrict_rows(self._expand_scan(scan), self.expand_scans(op.right), op.keys)
            case ops.Scan():
                return self._expand_scan(op)
        return ops.map_children(op, self.expand_scans)

    def _expand_scan(self, scan: ops.Scan) -> ops.Operator:
        match scan.mode:
            case ops.ScanMode.NEW | ops.ScanMode.OLD:
                rows = self.expansion.expand_snapshot(self._get_content(scan.channel, scan.mode))
            case ops.ScanMode.CHANGE:
                before = self._get_content(scan.channel, ops.ScanMode.OLD)
                rows = self.expansion.expand_signed(self._get_change(scan), before)
            case ops.ScanMode.TOUCHED:
                before, after = (self._get_content(scan.channel, m) for m in (ops.ScanMode.OLD, ops.ScanMode.NEW))
                rows = self.expansion.expand_touched(self._get_change(scan), scan.keys, before, after)
        return rows if rows.columns == scan.columns else ops.select_columns(rows, scan.columns)

    def _get_content(self, channel: str, mode: ops.ScanMode) -> Snapshot:
        view = self.views[name_input(channel, mode)]
        assert isinstance(view, Snapshot)
        return view

    def _get_change(self, scan: ops.Scan) -> Change:
        view = self.views[name_input(scan.channel, ops.ScanMode.CHANGE)]
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
