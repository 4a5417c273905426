"""The tables. `migrations/` creates them; a test compares the two.

Conditions of partial indexes are written with literals and used unchanged by the queries: SQLite uses a partial index
only for a query that repeats its condition literally.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    and_,
    exists,
    false,
    literal_column,
    or_,
)
from sqlalchemy.schema import SchemaItem

from tidemill.catalog.types import FRESHNESS_TARGET, PROVENANCE, SCHEMA, UPDATES, build_enum_type
from tidemill.model.access import UserRole
from tidemill.model.block import BlockKind, BlockOrigin, BlockState
from tidemill.model.channel import ChannelRole
from tidemill.model.freshness_target import NO_TARGET
from tidemill.model.identity import EMPTY_IDENTITY
from tidemill.model.notice import NoticeKind
from tidemill.model.provenance import EMPTY_PROVENANCE
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES, RunKind, RunState
from tidemill.model.states import DatasetState
from tidemill.model.store import RemovalKind

metadata = MetaData()

# SQLite assigns ids only if the key is declared INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")


def _table(name: str, *parts: SchemaItem) -> Table:
    return Table(name, metadata, *parts)


def _partial_index(name: str, condition: ColumnElement[bool], *columns: Column[Any], unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


clock = _table(
    "clock",
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("last", BigInteger, nullable=False),  # the last reading used, as a version or a fencing token
    Column("catalog", Text, nullable=False, server_default=""),  # the id of this catalog, as in the store's marker
)

workflows = _table(
    "workflows",
    Column("name", Text, primary_key=True),
    Column("applied", Double, nullable=False),  # time of the last change by apply
    Column("paused", Boolean, nullable=False, default=False, server_default=false()),
    Column("priority", Integer, nullable=False, default=0, server_default="0"),  # of its runs: larger runs first
    Column("document", JSON(none_as_null=True)),  # its declaration, if no file declares it
)

channels = _table(
    "channels",
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", build_enum_type(ChannelRole), nullable=False),
    Column("workflow", Text, ForeignKey("workflows.name"), nullable=False),
    Column("active", Boolean, nullable=False, default=True),  # false: no workflow declares it any longer
    Column("declared_schema", SCHEMA),  # schema as declared
    Column("schema", SCHEMA),  # schema of the newest visible block, or as declared since
    Column("updates", UPDATES, nullable=False),
    Column("freshness_target", FRESHNESS_TARGET, nullable=False, default=NO_TARGET, server_default="{}"),
    Column("next_seq", BigInteger, nullable=False, default=1),
    # The position of the head is stored here so that a claim reads no blocks.
    Column("head_seq", BigInteger, nullable=False, default=0),
    Column("head_provenance", PROVENANCE, nullable=False, default=EMPTY_PROVENANCE),
    Column("head_content", Text, nullable=False, default=EMPTY_IDENTITY),
    # Totals over filled blocks, so that the cost of listing channels does not depend on their length.
    Column("blocks", BigInteger, nullable=False, default=1),
    Column("rows", BigInteger, nullable=False, default=0),
    Column("bytes", BigInteger, nullable=False, default=0),
    # The newest block whose description expired: below it, missing blocks may have existed.
    Column("expired_seq", BigInteger, nullable=False, default=0, server_default="0"),
    Index("channels_name", "name", unique=True),
)

runs = _table(
    "runs",
    Column("id", Id, primary_key=True),
    Column("kind", build_enum_type(RunKind), nullable=False),
    Column("subject", Text, nullable=False),
    Column("state", build_enum_type(RunState), nullable=False),
    Column("attempt", Integer, nullable=False, default=0),
    Column("attempts", Integer, nullable=False),  # that its tasks allow
    Column("lost_attempts", Integer, nullable=False, default=0, server_default="0"),  # not by a fault of the tasks
    Column("fencing_token", BigInteger, nullable=False, default=0),
    Column("owner", Text),
    Column("lease_until", Double),
    Column("not_before", Double),
    Column("created", Double, nullable=False),
    Column("started", Double),
    Column("finished", Double),
    Column("error", Text),
    Column("stats", JSON, nullable=False, default=dict),
    Column("directory", Text),
    Column("backfill", Boolean, nullable=False, default=False, server_default=false()),
    Column("due", Double),  # since when, if not since its creation
    Column("requested", Double),  # time of the last repeated request, if any
    Index("runs_state", "state", "id"),
    Index("runs_subject", "subject", "id"),
    Index("runs_subject_state", "subject", "state", "id"),
)


def _is_flow(states: Iterable[RunState]) -> ColumnElement[bool]:
    has_state = runs.c.state.in_([literal_column(f"'{state}'") for state in states])
    return and_(runs.c.kind == literal_column(f"'{RunKind.FLOW}'"), has_state)


IS_RUNNABLE_FLOW = _is_flow(PENDING_STATES)
IS_ACTIVE_FLOW = _is_flow(ACTIVE_STATES)
_partial_index("runs_one_under_way_per_flow", IS_ACTIVE_FLOW, runs.c.subject, unique=True)

blocks = _table(
    "blocks",
    Column("id", Id, primary_key=True),
    Column("channel_id", Id, ForeignKey("channels.id"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("kind", build_enum_type(BlockKind), nullable=False),
    Column("state", build_enum_type(BlockState), nullable=False),
    Column("origin", build_enum_type(BlockOrigin), nullable=False),
    Column("since", BigInteger),
    Column("schema", SCHEMA),
    Column("updates", UPDATES, nullable=False),
    Column("rows", BigInteger, nullable=False, default=0),
    Column("bytes", BigInteger, nullable=False, default=0),
    Column("source", PROVENANCE, nullable=False, default=EMPTY_PROVENANCE),
    Column("target", PROVENANCE, nullable=False, default=EMPTY_PROVENANCE),
    Column("provenance", PROVENANCE, nullable=False, default=EMPTY_PROVENANCE),
    Column("identity", Text, nullable=False, default=EMPTY_IDENTITY),
    Column("content", Text, nullable=False, default=EMPTY_IDENTITY),
    Column("run_id", Id, ForeignKey("runs.id")),
    Column("task", Text),
    Column("visible", BigInteger),  # the clock's reading when it became visible: on input channels, its version
    Column("collected", BigInteger),  # the clock's reading of its garbage collection, until its files are purged
    Column("pinned", Boolean, nullable=False, default=False, server_default=false()),
    Column("watermark", BigInteger),  # the watermark of event time, in microseconds since the epoch
    Index("blocks_position", "channel_id", "seq", "kind", "since", unique=True),
    Index("blocks_visible", "channel_id", "visible"),
    Index("blocks_run", "run_id"),
)

RESERVED_STATE = literal_column(f"'{BlockState.RESERVED}'", Text)
IS_RESERVED = blocks.c.state == RESERVED_STATE
_partial_index("blocks_reserved", IS_RESERVED, blocks.c.channel_id, blocks.c.seq)

IS_NOT_COMPACTED = blocks.c.origin != literal_column(f"'{BlockOrigin.COMPACTION}'")
IS_BASE = blocks.c.kind == literal_column(f"'{BlockKind.BASE}'")
_partial_index("blocks_reservation", IS_NOT_COMPACTED, blocks.c.channel_id, blocks.c.seq, unique=True)
_partial_index("blocks_base", IS_BASE, blocks.c.channel_id, blocks.c.seq, unique=True)

IS_READABLE_BASE = and_(IS_BASE, blocks.c.state == literal_column(f"'{BlockState.FILLED}'"))
_partial_index("blocks_readable_bases", IS_READABLE_BASE, blocks.c.channel_id, blocks.c.seq)

Index("blocks_identity", blocks.c.identity, sqlite_where=IS_READABLE_BASE, postgresql_where=IS_READABLE_BASE)

IS_TO_PURGE = blocks.c.collected.is_not(None)
_partial_index("blocks_to_purge", IS_TO_PURGE, blocks.c.collected)

pin_holds = _table(  # blocks that a pin excludes from garbage collection: the pinned block and its inputs
    "pin_holds",
    Column("pin", Id, ForeignKey("blocks.id"), primary_key=True, autoincrement=False),
    Column("block_id", Id, ForeignKey("blocks.id"), primary_key=True, autoincrement=False),
    Index("pin_holds_block", "block_id"),
)

files = _table(
    "files",
    Column("block_id", Id, ForeignKey("blocks.id"), primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("path", Text, nullable=False),  # a compacted base may share files of the previous base
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Index("files_path", "path"),
)

removals = _table(  # paths marked for removal from the store after a grace period
    "removals",
    Column("path", Text, primary_key=True),
    Column("run_id", Id, ForeignKey("runs.id")),  # the run that wrote it, or whose block referred to it last
    Column("kind", build_enum_type(RemovalKind), nullable=False),
    Column("marked", Double, nullable=False),
    Index("removals_marked", "marked"),
    Index("removals_run", "run_id"),
)

insert_keys = _table(  # idempotency keys, by which a repeated insert finds the first
    "insert_keys",
    Column("channel_id", Id, ForeignKey("channels.id"), primary_key=True, autoincrement=False),
    Column("key", Text, primary_key=True),
    Column("block_id", Id, ForeignKey("blocks.id"), nullable=False),
    Index("insert_keys_block", "block_id"),
)

producers = _table(  # the last message of each producer
    "producers",
    Column("channel_id", Id, ForeignKey("channels.id"), primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("last", BigInteger, nullable=False),  # the number of the newest message in the channel
    Column("at", Double, nullable=False),  # its time of arrival
)

bindings = _table(
    "bindings",
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("workflow", Text, ForeignKey("workflows.name"), nullable=False),
    Column("identity", Text, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("active", Boolean, nullable=False, default=True),
    Index("bindings_name", "name", unique=True),
)

cursors = _table(
    "cursors",
    Column("binding_id", Id, ForeignKey("bindings.id"), primary_key=True, autoincrement=False),
    Column("task", Text, primary_key=True),
    Column("channel_id", Id, ForeignKey("channels.id"), primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("provenance", PROVENANCE, nullable=False),
    Column("content", Text, nullable=False),
    Index("cursors_channel", "channel_id"),
)

costs = _table(  # cost models of tasks' variants, fitted from past runs
    "costs",
    Column("binding_id", Id, ForeignKey("bindings.id"), primary_key=True, autoincrement=False),
    Column("task", Text, primary_key=True),
    Column("variant", Text, primary_key=True),
    Column("model", JSON, nullable=False),
)

analyses = _table(  # cached analyses of queries and functions by Spark, by the identities of the requests
    "analyses", Column("key", Text, primary_key=True), Column("answer", JSON, nullable=False)
)

channel_merge_costs = _table(  # readers' merge costs since the newest base, and the cost of a new base
    "channel_merge_costs",
    Column("channel_id", Id, ForeignKey("channels.id"), primary_key=True, autoincrement=False),
    Column("reads", BigInteger, nullable=False),  # that had deltas to merge
    Column("seconds", Double, nullable=False),  # seconds
    Column("rewrite_cost", JSON),  # the cost model of new bases, fitted from past ones
    Column("interactive_reads", BigInteger, nullable=False),  # interactive reads, never reset
)

setting_overrides = _table(  # overrides of settings of all running servers
    "setting_overrides", Column("name", Text, primary_key=True), Column("value", JSON, nullable=False)
)

run_reads = _table(
    "run_reads",
    Column("run_id", Id, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("task", Text, primary_key=True),
    Column("channel_id", Id, ForeignKey("channels.id"), primary_key=True, autoincrement=False),
    Column("since", BigInteger),
    Column("upto", BigInteger, nullable=False),
    Index("run_reads_channel", "channel_id", "upto"),
)

logs = _table(
    "logs",
    Column("run_id", Id, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
)

events = _table(
    "events",
    Column("id", Id, primary_key=True),
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("run_id", Id, ForeignKey("runs.id")),
    Column("detail", JSON, nullable=False),
    Index("events_run", "run_id"),
)

triggers = _table(  # their leaves
    "triggers",
    Column("id", Id, primary_key=True),
    Column("binding_id", Id, ForeignKey("bindings.id"), nullable=False),
    Column("root", Integer, nullable=False),  # index of the trigger among those of the flow
    Column("path", JSON, nullable=False),  # of the leaf in the trigger
    Column("spec", JSON, nullable=False),
    # What makes it due: data on a channel, or a milestone of a flow's run. Time triggers have neither.
    Column("channel", Text),
    Column("flow", Text),
    Column("milestone", Text),
    # The minimums of a data trigger, and the amounts that arrived since it last fired.
    Column("min_rows", BigInteger),
    Column("min_bytes", BigInteger),
    Column("age", Double),
    Column("lead", Double, nullable=False, default=0.0, server_default="0"),  # seconds that a target is due earlier
    Column("rows", BigInteger, nullable=False, default=0),
    Column("bytes", BigInteger, nullable=False, default=0),
    Column("since", Double),
    Column("due", Double),  # the time from which on it is due
    Column("missed", BigInteger, nullable=False, default=0),  # times it became due again before it was handled
    Column("fired", Double),  # when it last fired, as part of a compound that has not
    Column("paused", Boolean, nullable=False, default=False),
    Index("triggers_position", "binding_id", "root", "id"),
    Index("triggers_channel", "channel"),
    Index("triggers_flow", "flow", "milestone"),
)

IS_IN_USE = or_(*(exists().where(t.c.workflow == workflows.c.name, t.c.active) for t in (channels, bindings)))
"""Whether a workflow has active channels or flows."""

IS_ARMED = and_(triggers.c.due.is_not(None), triggers.c.paused.is_(False))
_partial_index("triggers_due", IS_ARMED, triggers.c.due)

firings = _table(
    "firings",
    Column("id", Id, primary_key=True),
    Column("at", Double, nullable=False),
    Column("flow", Text, nullable=False),
    Column("trigger", JSON, nullable=False),
    Column("missed", BigInteger, nullable=False),
    Column("run_id", Id, nullable=False),  # the run that handles it; it may have expired
    Index("firings_flow", "flow", "id"),
    Index("firings_run", "run_id"),
)

leases = _table(  # for work that one server does for all
    "leases",
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("fencing_token", BigInteger, nullable=False),
    Column("until", Double, nullable=False),
)

consumer_offsets = _table(  # offsets of the consumers of events
    "consumer_offsets", Column("name", Text, primary_key=True), Column("event", BigInteger, nullable=False)
)

alarms = _table(  # the active ones
    "alarms",
    Column("kind", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("since", Double, nullable=False),
)

notices = _table(
    "notices",
    Column("id", Id, primary_key=True),
    Column("receiver", Text, nullable=False),
    Column("kind", build_enum_type(NoticeKind), nullable=False),
    Column("subject", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("detail", JSON, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due", Double),  # time of the next attempt; NULL if it was delivered or given up
    Column("sent", Double),
    Column("error", Text),
    Index("notices_due", "due"),
    Index("notices_sent", "sent"),
)

servers = _table(
    "servers",
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),  # "up" or "work"
    Column("tracks", Integer, nullable=False),
    Column("started", Double, nullable=False),
    Column("last_heartbeat", Double, nullable=False),
    Column("state", Text, nullable=False),  # "serving", "recovering", "draining" or "stopped"
)

# Access to the API: users, their tokens and workflows, and the audit log.

users = _table(
    "users",
    Column("name", Text, primary_key=True),
    Column("role", build_enum_type(UserRole), nullable=False),
    Column("created", Double, nullable=False),
    Column("active", Boolean, nullable=False, default=True),  # false: removed; the audit log may still refer to it
)

tokens = _table(
    "tokens",
    Column("id", Text, primary_key=True),
    Column("user", Text, ForeignKey("users.name"), nullable=False),
    Column("label", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 of the secret, which is long and random
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("revoked", Double),
    Index("tokens_user", "user"),
)

workflow_owners = _table(  # a workflow without owners can be operated by every operator
    "workflow_owners",
    Column("workflow", Text, primary_key=True),  # owners may be set before it is first applied
    Column("user", Text, ForeignKey("users.name"), primary_key=True),
)

audit = _table(
    "audit",
    Column("id", Id, primary_key=True),
    Column("at", Double, nullable=False),
    Column("user", Text, nullable=False),
    Column("role", build_enum_type(UserRole)),
    Column("token", Text),
    Column("address", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("outcome", Integer),  # HTTP status of the response; NULL while there is none
)

# One-shot workflows: submissions, actions and datasets.

submissions = _table(
    "submissions",
    Column("id", Id, primary_key=True),
    Column("workflow", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("document", JSON, nullable=False),  # as it was submitted
    Index("submissions_workflow", "workflow", "id"),
    Index("submissions_at", "at"),
)

datasets = _table(
    "datasets",
    Column("identity", Text, primary_key=True),
    Column("unforced_identity", Text, nullable=False),  # without generations, as if nothing had been forced
    Column("generation", Integer, nullable=False),
    Column("description", JSON, nullable=False),
    Column("workflow", Text, nullable=False),  # the workflow whose action first requested it, under this name
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),  # shared by datasets that are produced in the same way
    Column("parents", JSON, nullable=False),  # their identities, in port order
    Column("state", build_enum_type(DatasetState), nullable=False),
    Column("version", BigInteger, nullable=False, default=0),
    Column("claims", Integer, nullable=False, default=0),
    Column("is_leaf", Boolean, nullable=False),  # whether it becomes a leaf
    Column("pinned", Boolean, nullable=False, default=False, server_default=false()),  # never evicted
    Column("run_id", Id, ForeignKey("runs.id")),  # the run that produces it, or produced it last
    Column("schema", SCHEMA),
    Column("files", JSON, nullable=False, default=list),  # path, rows and bytes of each
    Column("rows", BigInteger, nullable=False, default=0),
    Column("bytes", BigInteger, nullable=False, default=0),
    Column("seconds", Double, nullable=False, default=0.0),  # of the last computation
    Column("created", Double, nullable=False),
    Column("computed_at", Double),  # time of the last computation
    Column("used_at", Double),  # time of the last read or request
    Index("datasets_unforced_identity", "unforced_identity", "generation"),
    Index("datasets_state", "state"),
    Index("datasets_run", "run_id"),
)

actions = _table(  # of submissions: the requested datasets, and the decisions to reuse or compute them
    "actions",
    Column("submission_id", Id, ForeignKey("submissions.id"), primary_key=True, autoincrement=False),
    Column("key", Text, primary_key=True),  # its id in the workflow
    Column("ordinal", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("identity", Text, ForeignKey("datasets.identity"), nullable=False),
    Column("verdict", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("saved_seconds", Double, nullable=False),  # seconds of computation saved by reuse
    Column("path", Text),  # the user's path for a copy
    Column("copied_at", Double),  # when the copy was made
    Column("run_id", Id, ForeignKey("runs.id")),  # the producing run; NULL if the dataset existed or is not needed
    Index("actions_identity", "identity"),
    Index("actions_run", "run_id"),
)

tallies = _table(  # hourly totals of expired history
    "tallies",
    Column("begin", Double, primary_key=True),
    Column("user", Text, primary_key=True),  # empty: not submitted by a user
    Column("workflow", Text, primary_key=True),
    Column("task", Text, primary_key=True),  # empty: of submissions
    *(Column(name, BigInteger, nullable=False) for name in ("submissions", "actions", "computed", "hits")),
    *(Column(name, BigInteger, nullable=False) for name in ("refreshes", "failed", "bytes")),
    *(Column(name, Double, nullable=False) for name in ("seconds", "saved_seconds")),
)

run_inputs = _table(  # the inputs of the runs of actions
    "run_inputs",
    Column("run_id", Id, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("identity", Text, ForeignKey("datasets.identity"), primary_key=True),
    Column("claimed", Boolean, nullable=False),  # false: it is not yet available
    Index("run_inputs_identity", "identity"),
)
