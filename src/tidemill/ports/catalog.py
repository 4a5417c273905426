"""The catalog as the runtime sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from tidemill.model.block import Block, ChannelPosition
from tidemill.model.codec import Json
from tidemill.model.notice import Notice
from tidemill.model.run import ClaimRequest, Run, RunClaim, RunKind, RunOutcome, RunState
from tidemill.model.store import GracePeriods, Removal
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.records import (
    CatalogIdentity,
    ChannelMergeCost,
    ChannelRead,
    Cursor,
    DeltaLink,
    Event,
    FlowStatistics,
    RegisteredBinding,
    RegisteredChannel,
    RegisteredTrigger,
    RegisteredWorkflow,
    RunExpiryCounts,
    Server,
    TriggerFiring,
)

Clock = Callable[[], float]
"""Seconds since the epoch."""


class CatalogReader(Protocol):
    """Everything that can be asked without changing anything."""

    def read_time(self) -> float:
        """Seconds since the epoch, by the clock that all who share the catalog have in common."""

    def read_analyses(self) -> dict[str, Json]:
        """What was remembered of analysed queries and functions, by key."""

    def read_identity(self) -> CatalogIdentity:
        """Which catalog this is, and how far it has come."""

    def list_channels(self) -> list[RegisteredChannel]: ...
    def read_channel(self, name: str) -> RegisteredChannel: ...
    def list_refusals(self, workflow: WorkflowSpec) -> list[str]:
        """Why `apply` would refuse the workflow: changes of channels with which their blocks could not be read."""

    def list_bindings(self) -> list[RegisteredBinding]: ...
    def read_cursors(self, channel: str | None = None) -> list[Cursor]: ...
    def read_costs(self, flow: str) -> dict[tuple[str, str], Json]:
        """What refreshing was learnt to cost, by task and variant."""

    def list_merge_costs(self, paid: float = 0.0) -> list[ChannelMergeCost]:
        """Of each channel on which anything was merged so far, and readers have paid this much at least."""

    def read_flow_statistics(self) -> dict[str, FlowStatistics]:
        """What is known of all bound flows, by name. What did not change is the same object as at the last look."""

    def read_setting_overrides(self) -> dict[str, Any]:
        """What people wish of all servers, by what it is about."""

    def count_content_rows(self) -> dict[str, int]:
        """The rows of the content of each channel, where the catalog knows them."""

    def list_versions(self, channel: str, since: int) -> list[int]:
        """The versions of an input channel from `since` on, ascending."""

    def read_block(self, block: int) -> Block: ...
    def list_blocks(self, channel: str | None = None, limit: int = 100) -> list[Block]:
        """The newest blocks first, in every state."""

    def list_filled_blocks(self, channel: str) -> list[Block]:
        """Every filled block of a channel, oldest first, without its files and what it reflects."""

    def list_visible_blocks(self, channel: str, since: int, upto: int) -> list[Block]:
        """Every slot within (since, upto] that became visible, whatever became of it since."""

    def list_active_positions(self, channel: str) -> set[int]:
        """Where runs that are under way read the channel: at its head when they were claimed."""

    def list_pinned_blocks(self, channel: str) -> set[int]: ...  # blocks that pins keep from being collected

    def read_base_and_deltas(self, channel: str, at: int) -> list[Block]:
        """The newest filled base at or before `at`, and the filled deltas after it up to `at`."""

    def list_deltas(self, channel: str, since: int, upto: int) -> list[Block]:
        """The filled deltas within (since, upto]."""

    def list_delta_links(self, channel: str, since: int) -> list[DeltaLink]:
        """The filled deltas after `since` that can be read, in order."""

    def read_position(self, channel: str, *, seq: int | None = None, version: int | None = None) -> ChannelPosition:
        """The position at the newest filled slot not after `seq`, or not visible after `version`."""

    def read_lease_end(self, name: str) -> float | None:
        """When the lease of a name ends, or has ended; None if nobody ever had it."""

    def find_consumer_offset(self, name: str) -> int | None:
        """How far somebody has come who is told things in their order; None if never told anything."""

    def read_producer_sequences(self, channel: str, names: Collection[str]) -> dict[str, int]:
        """The number of the last message of each of these producers that is in the channel; 0 if none is."""

    def read_run(self, run: int) -> Run: ...
    def list_runs(
        self, *, state: RunState | None = None, subject: str | None = None, limit: int = 100
    ) -> list[Run]: ...
    def read_log(self, run: int) -> str: ...
    def list_overfull_subjects(self, subjects: Collection[str], *, keep: int) -> list[str]:
        """Which of these channels and bound flows have more runs than that."""

    def list_run_reads(self, run: int) -> list[ChannelRead]: ...
    def list_block_reads(self, channel: str, seq: int) -> list[ChannelRead]:
        """The readings of finished runs that covered sequence number `seq` of a channel."""

    def list_written_blocks(self, run: int) -> list[Block]: ...
    def list_workflows(self) -> list[RegisteredWorkflow]: ...
    def list_triggers(self, flow: str | None = None) -> list[RegisteredTrigger]: ...
    def list_firings(self, flow: str | None = None, limit: int = 100) -> list[TriggerFiring]:
        """The newest first."""

    def list_servers(self) -> list[Server]: ...
    def list_due_triggers(self, limit: int = 100) -> list[int]:
        """The conditions that are due, by number."""

    def list_runnable_runs(self, limit: int = 100) -> list[Run]:
        """Runs of flows and of actions that may be claimed now, in the order in which they should be."""

    def list_events(self, *, after: int = 0, run: int | None = None, limit: int = 100) -> list[Event]: ...
    def list_referenced_files(self) -> set[str]: ...
    def list_newest_files(self, limit: int) -> list[str]:
        """The files of the newest blocks and datasets that have any."""

    def find_referenced_files(self, paths: Collection[str]) -> set[str]:
        """Those of the files that a block or a dataset names."""

    def list_active_directories(self) -> set[str]: ...
    def find_attempts(self, directories: Collection[str]) -> dict[str, Run]:
        """The runs whose newest attempt wrote in one of these directories, by directory."""

    def list_marked_paths(self) -> set[str]:
        """Every path that is marked for removal."""

    def list_due_removals(self, grace: GracePeriods, limit: int) -> list[Removal]:
        """What was marked long enough ago, the oldest first."""


class CatalogWriter(CatalogReader, Protocol):
    """Every transition is a conditional update in one transaction, and leaves an event.

    What no longer holds raises `Conflict` and changes nothing.
    """

    def apply_workflow(self, workflow: WorkflowSpec, document: Json | None = None) -> None: ...
    def record_analyses(self, answers: Mapping[str, Json]) -> None:
        """Keep what was found of queries and functions for all who load them later."""

    def remove_workflow(self, workflow: str) -> None:
        """Take a workflow out of use; its data stay."""

    def request_run(self, kind: RunKind, subject: str, *, attempts: int = 1, backfill: bool = False) -> Run:
        """A new run, ready to be claimed at most `attempts` times."""

    def acquire_run(self, run: int, *, owner: str, lease: float) -> Run:
        """Have a ready run, with a lease of `lease` seconds under a new fence, before it is known what it needs."""

    def claim_run(
        self, run: int, demand: ClaimRequest, *, owner: str, lease: float, fence: int | None = None
    ) -> RunClaim:
        """Take a ready run, or go on with one taken under `fence`: its slots, and a lease under a new fence."""

    def claim_new_run(self, kind: RunKind, subject: str, demand: ClaimRequest, *, owner: str, lease: float) -> RunClaim:
        """A new run, claimed at once by the process that asks for it; if it cannot be claimed, there is none.

        Raises `KeyUsed` if an insert had one of its keys, `InsertUnderWay` if one that is under way has.
        """

    def mark_running(self, run: int, fence: int) -> None:
        """The engine has begun with a run that was handed to it."""

    def find_inserted_blocks(self, channel: str, keys: Collection[str]) -> dict[str, Block]:
        """The blocks that were inserted under these idempotency keys, by key."""

    def renew_lease(self, run: int, fence: int, *, lease: float) -> None: ...
    def commit_run(self, claim: RunClaim, outcome: RunOutcome) -> list[Block]:
        """Make everything visible at once, or raise and change nothing. Returns the filled blocks."""

    def commit_compaction(self, claim: RunClaim, made: Block, *, log: str = "", rewriting: Json | None = None) -> Block:
        """Commit a compaction run: a base, or a delta made of several, beside the blocks that it stands for.

        `rewriting` is what is known now about the cost of a base.
        """

    def record_merge_costs(self, paid: Mapping[str, float]) -> None:
        """Somebody who is no run read these channels, and paid so many seconds for merging."""

    def fail_run(
        self,
        run: int,
        fence: int,
        *,
        error: str,
        log: str = "",
        retry_in: float | None = None,
        lost: bool = False,
    ) -> Run:
        """Cancel the slots. Ready again after `retry_in` seconds, if given and attempts remain; else failed.

        `lost`: it was no fault of the tasks'. That uses up none of their attempts, and if the run fails at last, what
        fired it stays due.
        """

    def kill_run(self, run: int) -> Run: ...
    def reclaim_expired_runs(self) -> list[Run]:
        """Cancel the slots of runs whose lease has expired; they become ready again, or failed.

        What only its own process can execute, and was asked for long ago and never begun, is killed.
        """

    def reclaim_unknown_runs(self, owner: str, keep: Collection[int]) -> list[Run]:
        """Give up what an owner has by the catalog, but for the runs that it knows of."""

    def fire_trigger(self, leaf: int) -> int | None:
        """Handle a condition that is due: the run that it asks for, None if it is not due or others are missing."""

    def release_run(self, run: int, fence: int, *, seconds: float) -> None:
        """Give back a run that was taken; it waits so long, and the attempt does not count."""

    def override_settings(self, wanted: Mapping[str, Any]) -> None:
        """Wish something of all dispatchers: a policy, a placement, tracks; None takes a wish back."""

    def set_freshness_deadline(self, flow: str, at: float) -> None:
        """What a flow promises would be broken from then on: let it be due by that time."""

    def set_freshness_lead(self, flow: str, seconds: float) -> None:
        """Keeping what a flow promises takes about so long: it will be due so much earlier."""

    def set_workflow_paused(self, workflow: str, *, paused: bool) -> None: ...
    def set_workflow_priority(self, workflow: str, priority: int) -> None: ...
    def create_notices(self, receivers: list[str]) -> int:
        """Make notices, for each of the receivers, of what happened since this was last asked; returns how many."""

    def list_due_notices(self, limit: int = 100) -> list[tuple[str, Notice]]:
        """What is to be delivered now, and to whom."""

    def record_delivery(self, notice: int) -> None: ...
    def record_delivery_failure(self, notice: int, error: str) -> None:
        """Somebody did not take a notice; it is tried again later, but not for ever."""

    def record_heartbeat(self, server: Server, *, lease: float) -> bool:
        """Say that a server is there; True if it leads for the next `lease` seconds."""

    def acquire_lease(self, name: str, owner: str, *, lease: float) -> bool:
        """Take or keep what one process does for all, for `lease` seconds; False if another has it."""

    def release_lease(self, name: str, owner: str) -> None:
        """Another may hold it at once."""

    def move_consumer_offset(self, name: str, since: int | None, upto: int) -> None: ...
    def expire_producers(self, age: float) -> int:
        """Forget how far producers came of whom nothing came for so many seconds; returns how many."""

    def deregister_server(self, server: Server) -> None:
        """The server leaves: somebody else may lead at once."""

    def collect_blocks(self, blocks: Iterable[int]) -> int:
        """Hide filled blocks from every reader that starts from now on; their files stay for those that run.

        What pins hold is left; returns how many were hidden.
        """

    def pin_block(self, block: int, keeps: Collection[int]) -> None:
        """Keep blocks from being collected, a block itself and what it was made from, until `unpin` is said of it."""

    def unpin_block(self, block: int) -> None: ...

    def purge_blocks(self) -> list[str]:
        """Forget the files of blocks collected before any running run began; returns those no block names now.

        They are marked for removal in the same transaction.
        """

    def mark_orphans(self, run: int, paths: Collection[str]) -> int:
        """Mark for removal files that a run left and nothing names; returns how many were not marked before."""

    def finish_removals(self, paths: Collection[str]) -> None:
        """What was marked for removal is gone from the store."""

    def record_adoption(self, store: str, before: str | None) -> None:
        """The store belongs to this catalog from now on, and belonged to another, by its id, before."""

    def expire_runs(self, subject: str, *, keep: int) -> RunExpiryCounts:
        """Forget the ended runs of a channel or bound flow but the newest `keep`, and those whose blocks are in use.

        Their events, readings and logs go with them, and the descriptions of blocks that only they wrote.
        It is the one change that leaves no event: what happened is what is forgotten.
        """
