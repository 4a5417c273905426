"""The catalog's interface to the runtime: one port for each noun.

`…Queries` reads a noun; a `…Catalog` adds its transitions. Each transition is one transaction of conditional updates
and records an event. If its preconditions no longer hold, it raises `Conflict` and changes nothing.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tidemill.model.block import Block, ChannelPosition
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.notice import AlarmKind, AlarmReading, Notice
from tidemill.model.run import ClaimRequest, Run, RunClaim, RunKind, RunOutcome, RunState
from tidemill.model.store import GracePeriods, Removal
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports import records
from tidemill.ports.accounts import AccountCatalog
from tidemill.ports.datasets import DatasetCatalog

Clock = Callable[[], float]
"""Seconds since the epoch."""


class WorkflowQueries(Protocol):
    """The workflows that are applied now."""

    def list_refusals(self, workflow: WorkflowSpec) -> list[str]:
        """The reasons for which `apply` would reject the workflow: channel changes that make blocks unreadable."""

    def read_analyses(self) -> dict[str, Json]:
        """The stored analyses of queries and functions, by key."""

    def list(self) -> list[records.RegisteredWorkflow]: ...


class WorkflowCatalog(WorkflowQueries, Protocol):
    def apply(self, workflow: WorkflowSpec, document: Json | None = None) -> None:
        """Register a workflow. `document` is its declaration, if no file declares it."""

    def remove(self, workflow: str) -> None:
        """Deactivate a workflow; its data stay, for a later declaration of the same channels."""

    def set_paused(self, workflow: str, *, paused: bool) -> None:
        """Pause or resume a workflow: triggers and servers do not run paused flows. Data that arrive count."""

    def set_priority(self, workflow: str, priority: int) -> None: ...
    def record_analyses(self, answers: Mapping[str, Json]) -> None:
        """Store analyses of queries and functions for later loads."""


class FlowQueries(Protocol):
    """The bound flows of applied workflows."""

    def find_identity(self, flow: str) -> Identity | None:
        """The identity of a bound flow as it was last applied; None if no applied workflow declares it."""

    def read_costs(self, flows: Collection[str]) -> dict[tuple[str, str, str], Json]:
        """The cost models of refreshes, fitted from past runs, by flow, task and variant."""

    def read_statistics(self) -> dict[str, records.FlowStatistics]:
        """The statistics of all bound flows, by name. Unchanged ones are the same objects as in the last call."""

    def list(self) -> list[records.RegisteredBinding]: ...


class ChannelQueries(Protocol):
    """The channels that applied workflows declare; removed ones can be read by name."""

    def read(self, name: str) -> records.RegisteredChannel: ...
    def read_all(self, names: Collection[str]) -> list[records.RegisteredChannel]: ...
    def read_cursors(self, channel: str | None = None) -> list[records.Cursor]: ...
    def read_flow_cursors(self, flows: Collection[str]) -> list[records.Cursor]: ...
    def list_versions(self, since: Mapping[str, int]) -> dict[str, list[int]]:
        """By input channel, its versions from the given one on, ascending."""

    def find_next_versions(self, versions: Mapping[str, Collection[int]]) -> dict[str, list[int]]:
        """By input channel, the version after each of these, if there is one, and the newest; ascending."""

    def list_pending_seqs(self, positions: Mapping[str, int]) -> dict[str, list[int]]:
        """By channel, the sequence numbers of its filled blocks after a position, up to its head; ascending."""

    def read_position(self, channel: str, *, seq: int | None = None, version: int | None = None) -> ChannelPosition:
        """The position at the newest filled block not after `seq`, or not visible after `version`.

        Blocks garbage-collected since count: their positions are known, though they may no longer be readable. Only
        input channels have versions; elsewhere the clock's reading when a block became visible is compared.
        If the block may have expired, that is an error, since the block before it has another content.
        """

    def list_active_positions(self, channel: str) -> set[int]:
        """The positions up to which active runs read the channel, and its head when they were claimed."""

    def count_content_rows(self) -> dict[str, int]:
        """The number of rows of each channel's content, where the catalog can derive it."""

    def list_merge_costs(self, min_seconds: float = 0.0) -> list[records.ChannelMergeCost]:
        """The merge costs of channels on which readers have spent at least `min_seconds` seconds merging."""

    def read_producer_sequences(self, channel: str, names: Collection[str]) -> dict[str, int]:
        """The number of the last committed message of each producer on the channel; 0 if there is none."""

    def list(self) -> list[records.RegisteredChannel]: ...


class ChannelCatalog(ChannelQueries, Protocol):
    def record_merge_costs(self, seconds_by_channel: Mapping[str, float]) -> None:
        """Record interactive reads of channels with their seconds of merging."""

    def expire_producers(self, age: float) -> int:
        """Expire producers without messages for `age` seconds; returns their number. Hashes of files never expire."""


class BlockQueries(Protocol):
    """The blocks of all channels."""

    def read(self, block: int) -> Block: ...
    def list_filled(self, channel: str) -> list[Block]:
        """Every filled block of a channel, oldest first, without files and provenance."""

    def list_visible(self, channel: str, since: int, upto: int) -> list[Block]:
        """Every block within (since, upto] that became visible, also if it was garbage-collected since."""

    def list_pinned(self, channel: str) -> set[int]:
        """The blocks of a channel that pins exclude from garbage collection."""

    def list_written(self, run: int) -> list[Block]: ...
    def read_base_and_deltas(self, channel: str, at: int) -> list[Block]:
        """The newest filled base at or before `at`, and the filled deltas after it up to `at`."""

    def read_contents(self, channels: Collection[str]) -> dict[str, list[Block]]:
        """By channel, the newest filled base, and the filled deltas after it, up to the head; without it, nothing."""

    def list_deltas(self, channel: str, since: int, upto: int) -> list[Block]:
        """The filled deltas within (since, upto]."""

    def list_delta_links(self, channel: str, since: int) -> list[records.DeltaLink]:
        """The filled deltas after `since` that can be read, in order."""

    def find_base(self, identity: Identity) -> Block | None:
        """The newest filled base with this identity, on any channel; None if there is none."""

    def find_inserted(self, channel: str, keys: Collection[str]) -> dict[str, Block]:
        """The blocks that were inserted under these idempotency keys, by key."""

    def list(self, channel: str | None = None, limit: int = 100) -> list[Block]:
        """The newest blocks first, in every state."""


class BlockCatalog(BlockQueries, Protocol):
    def collect(self, blocks: Collection[int], needs: Collection[int] | None = None) -> int:
        """Hide blocks, except those held by pins, from new readers; returns their number. Active runs may read them.

        `needs` are the known positions of readers, up to the head: a cursor that moved elsewhere before it conflicts.
        """

    def purge(self) -> list[str]:
        """Mark the files, unless other blocks share them, of blocks collected before all active runs; returns them."""

    def pin(self, block: int, block_ids: Collection[int]) -> None:
        """Exclude a block and its inputs, `block_ids`, from garbage collection until the block is unpinned."""

    def unpin(self, block: int) -> None: ...


class RunQueries(Protocol):
    """The runs of flows, inserts, compactions and actions."""

    def read(self, run: int) -> Run: ...
    def read_log(self, run: int) -> str:
        """The logs of all attempts, in their order."""

    def list_reads(self, run: int) -> list[records.ChannelRead]: ...
    def list_last_reads(self) -> dict[records.Reader, int]:
        """How far the last finished run of each bound flow that read anything has read."""

    def list_newest_flow_runs(self) -> dict[str, Run]:
        """The newest run of each bound flow that was ever requested to run."""

    def list_newest_finished(self, limit: int) -> dict[str, list[Run]]:
        """By bound flow, the newest finished runs of it, at most `limit` of each, the newest first."""

    def list_block_reads(self, channel: str, seq: int) -> list[records.ChannelRead]:
        """The reads of finished runs that covered sequence number `seq` of a channel."""

    def list_runnable(self, limit: int = 100) -> list[Run]:
        """Runs of flows and of actions that may be claimed now, in the order in which to claim them."""

    def list_overfull_subjects(self, subjects: Collection[str], *, retain: int) -> list[str]:
        """The channels and bound flows among `subjects` with more than `retain` runs."""

    def list(
        self,
        *,
        state: RunState | None = None,
        kind: RunKind | None = None,
        subject: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """Runs, the newest first; the next page starts before the last run of this one."""


class RunCatalog(RunQueries, Protocol):
    def request(self, kind: RunKind, subject: str, *, attempts: int = 1, backfill: bool = False) -> Run:
        """A new run, ready to be claimed at most `attempts` times."""

    def acquire(self, run: int, *, owner: str, lease: float) -> Run:
        """Take the lease of a ready run for `lease` seconds under a new fencing token, before its reads are known."""

    def claim(
        self, run: int, request: ClaimRequest, *, owner: str, lease: float, fencing_token: int | None = None
    ) -> RunClaim:
        """Claim a ready run, or one acquired under `fencing_token`: reservations, and a lease under a new token."""

    def claim_new(self, kind: RunKind, subject: str, request: ClaimRequest, *, owner: str, lease: float) -> RunClaim:
        """Create a run and claim it in one transaction; if it cannot be claimed, no run is created.

        Raises `DuplicateKey` if an insert has used one of its keys, `InsertInProgress` if that insert is in progress.
        """

    def mark_running(self, run: int, fencing_token: int) -> None:
        """Record that the engine started a submitted run."""

    def renew_lease(self, run: int, fencing_token: int, *, lease: float) -> None: ...
    def release(self, run: int, fencing_token: int, *, seconds: float) -> None:
        """Release an acquired run; it waits for `seconds`, and the attempt does not count."""

    def commit(self, claim: RunClaim, outcome: RunOutcome) -> list[Block]:
        """Make all effects of a run visible atomically, or raise and change nothing. Returns the filled blocks."""

    def commit_compaction(
        self, claim: RunClaim, compacted: Block, *, log: str = "", rewrite_cost: Json | None = None
    ) -> Block:
        """Commit a compaction run: a base (major) or a combined delta (minor), beside the blocks that it replaces."""

    def fail(
        self,
        run: int,
        fencing_token: int,
        *,
        error: str,
        log: str = "",
        retry_in: float | None = None,
        is_lost: bool = False,
    ) -> Run:
        """Cancel the reservations. Ready again after `retry_in` seconds, if given and attempts remain; else failed.

        `is_lost`: it was not a fault of the tasks. That uses up none of their attempts, and if the run finally fails,
        its triggers stay due.
        """

    def kill(self, run: int) -> Run: ...
    def withdraw(self, run: int) -> None:
        """Kill a run unless a process has started it; its triggers stay due."""

    def reclaim_expired(self) -> list[Run]:
        """Cancel the reservations of runs whose lease has expired; they become ready again, or failed.

        Each run is reclaimed in a separate transaction. A run that only its process can execute, and that was
        requested long ago and never started, is killed.
        """

    def reclaim_owned(self, owner: str, *, error: str, keep: Collection[int] = (), is_lost: bool = True) -> list[Run]:
        """Reclaim the runs that an owner holds in the catalog, but does not execute: all except those in `keep`.

        `is_lost`: it was not a fault of the tasks, as for `fail`.
        """

    def expire(self, subject: str, *, retain: int) -> records.RunExpiryCounts:
        """Delete the oldest ended runs of a channel or bound flow beyond `retain`, unless their blocks are in use.

        Their events, reads, logs and block descriptions are deleted with them, in batches with a transaction each. It
        is the only change that records no event, since it deletes history.
        """


class TriggerQueries(Protocol):
    """The leaves of the triggers of bound flows, and their firings."""

    def list_firings(self, flow: str | None = None, limit: int = 100) -> list[records.TriggerFiring]:
        """Firings, the newest first."""

    def list_due(self, limit: int = 100) -> list[int]:
        """The ids of the trigger leaves that are due."""

    def list(self, flow: str | None = None) -> list[records.RegisteredTrigger]: ...


class TriggerCatalog(TriggerQueries, Protocol):
    def fire(self, leaf: int) -> int | None:
        """Handle a due leaf; returns the run that it requests, None if it is not due or its compound is incomplete."""

    def set_freshness_deadline(self, flow: str, at: float) -> None:
        """Make a flow due by `at`, when a freshness target would be missed."""

    def set_freshness_lead(self, flow: str, seconds: float) -> None:
        """Make a flow due earlier, since meeting its freshness targets takes about `seconds`."""


class ServerQueries(Protocol):
    """The servers, their leases and the settings that they share."""

    def read_lease_end(self, name: str) -> float | None:
        """The end of the lease of a name, possibly in the past; None if it was never acquired."""

    def read_setting_overrides(self) -> dict[str, Any]:
        """The overrides of settings of all servers, by name."""

    def list(self) -> list[records.Server]: ...


class ServerCatalog(ServerQueries, Protocol):
    def record_heartbeat(self, server: records.Server, *, lease: float) -> bool:
        """Record a server's heartbeat; True if it is the leader for the next `lease` seconds."""

    def deregister(self, server: records.Server) -> None:
        """Record that a server stops: another server may become the leader at once."""

    def acquire_lease(self, name: str, owner: str, *, lease: float) -> bool:
        """Acquire or renew a named lease for `lease` seconds; False if another owner holds it."""

    def release_lease(self, name: str, owner: str) -> None:
        """Release a named lease: another owner may acquire it at once."""

    def override_settings(self, overrides: Mapping[str, Any]) -> None:
        """Override settings of all dispatchers: policy, placement, tracks; None removes an override."""


class EventQueries(Protocol):
    """The event log, and the offsets of its consumers."""

    def list_newest(self, limit: int) -> list[records.Event]:
        """The last events, the oldest first."""

    def read_last_id(self) -> int:
        """The number of the newest event; 0 if there is none."""

    def find_consumer_offset(self, name: str) -> int | None:
        """The offset of a consumer; None if it has none yet."""

    def list(self, *, after: int = 0, run: int | None = None, limit: int = 100) -> list[records.Event]: ...


class EventCatalog(EventQueries, Protocol):
    def move_consumer_offset(self, name: str, since: int | None, upto: int) -> None:
        """Move an offset from `since` by compare-and-swap; None: it does not exist yet."""


class AlarmCatalog(Protocol):
    """Alarms: each beginning and each end of one is recorded as an event, once."""

    def update(self, kind: AlarmKind, readings: Mapping[str, AlarmReading]) -> None:
        """Compare the condition of every subject with the active alarms of a kind, and record the changes.

        The alarm of a subject without a reading, which no longer exists, ends without an event.
        """


class NoticeCatalog(Protocol):
    """Notices: created from events exactly once, and stored until they are delivered."""

    def create(self, receivers: list[str]) -> int:
        """Create notices, for each receiver, from the events since the last call; returns their number."""

    def list_due(self, limit: int = 100) -> list[tuple[str, Notice]]:
        """The notices that are due for delivery, each with its receiver."""

    def record_delivery(self, notice: int) -> None: ...
    def record_delivery_failure(self, notice: int, error: str) -> None:
        """Record a failed delivery; it is retried later, up to a limit."""


class FileQueries(Protocol):
    """The files of blocks and datasets, the directories of attempts, and the paths that are marked for removal."""

    def count_block_bytes(self) -> int:
        """The bytes of the files of filled blocks; a file that several blocks share counts once."""

    def count_workflow_bytes(self) -> dict[str, int]:
        """The bytes of the files of filled blocks by workflow; a file that its blocks share counts once."""

    def list_referenced(self) -> set[str]: ...
    def list_newest(self, limit: int) -> list[str]:
        """The files of the newest blocks and datasets that have files."""

    def find_referenced(self, paths: Collection[str]) -> set[str]:
        """The files among `paths` that a block or a dataset refers to."""

    def list_active_directories(self) -> set[str]: ...
    def find_attempts(self, directories: Collection[str]) -> dict[str, Run]:
        """The runs whose newest attempt wrote in one of these directories, by directory."""

    def list_marked(self) -> set[str]:
        """Every path that is marked for removal."""

    def list_due_removals(self, grace: GracePeriods, limit: int) -> list[Removal]:
        """The removals whose grace period has passed, the oldest first."""


class FileCatalog(FileQueries, Protocol):
    def mark_orphans(self, run: int, paths: Collection[str]) -> int:
        """Mark unreferenced files of a run for removal; returns the number of newly marked files."""

    def finish_removals(self, paths: Collection[str]) -> None:
        """Record that marked paths were removed. Another process may have recorded some of them before."""

    def record_adoption(self, store: str, before: str | None) -> None:
        """Record that this catalog adopted a store; `before` is the id of its previous catalog."""


@dataclass(frozen=True)
class CatalogReader:
    """Read-only access to a catalog, by noun. `read_time` is the clock that all users of the catalog share."""

    read_time: Clock
    read_identity: Callable[[], records.CatalogIdentity]
    workflows: WorkflowQueries
    flows: FlowQueries
    channels: ChannelQueries
    blocks: BlockQueries
    runs: RunQueries
    triggers: TriggerQueries
    servers: ServerQueries
    events: EventQueries
    files: FileQueries


@dataclass(frozen=True)
class Catalog(CatalogReader):
    """Access to a catalog, by noun."""

    workflows: WorkflowCatalog
    channels: ChannelCatalog
    blocks: BlockCatalog
    runs: RunCatalog
    triggers: TriggerCatalog
    servers: ServerCatalog
    events: EventCatalog
    files: FileCatalog
    alarms: AlarmCatalog
    notices: NoticeCatalog
    datasets: DatasetCatalog
    accounts: AccountCatalog
