"""The tables. `migrations/` creates them; a test compares the two.

Conditions of partial indexes are written with literals and used unchanged by the queries: SQLite uses a partial index
only for a query that repeats its condition literally.
"""

from __future__ import annotations

from collections.abc import Iterable

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

from tidemill.catalog.types import FreshnessTargetText, ProvenanceText, SchemaText, UpdatesText
from tidemill.model.block import BlockKind, BlockOrigin, BlockState
from tidemill.model.freshness_target import NO_TARGET
from tidemill.model.identity import EMPTY_IDENTITY
from tidemill.model.provenance import EMPTY_PROVENANCE
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES, RunKind, RunState

metadata = MetaData()

# SQLite assigns ids only if the key is declared INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")

clock = Table(
    "clock",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("last", BigInteger, nullable=False),  # the last reading used, as a version or a fencing token
    Column("catalog", Text, nullable=False, server_default=""),  # the id of this catalog, as in the store's marker
)

workflows = Table(
    "workflows",
    metadata,
    Column("name", Text, primary_key=True),
    Column("applied", Double, nullable=False),  # time of the last change by apply
    Column("paused", Boolean, nullable=False, default=False, server_default=false()),
    Column("priority", Integer, nullable=False, default=0, server_default="0"),  # of its runs: larger runs first
    Column("document", JSON(none_as_null=True)),  # its declaration, if no file declares it
)

channels = Table(
    "channels",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("workflow", Text, ForeignKey("workflows.name"), nullable=False),
    Column("active", Boolean, nullable=False, default=True),  # false: no workflow declares it any longer
    Column("declared_schema", SchemaText),  # schema as declared
    Column("schema", SchemaText),  # schema of the newest visible block, or as declared since
    Column("updates", UpdatesText, nullable=False),
    Column("freshness_target", FreshnessTargetText, nullable=False, default=NO_TARGET, server_default="{}"),
    Column("next_seq", BigInteger, nullable=False, default=1),
    # The position of the head is stored here so that a claim reads no blocks.
    Column("head_seq", BigInteger, nullable=False, default=0),
    Column("head_provenance", ProvenanceText, nullable=False, default=EMPTY_PROVENANCE),
    Column("head_content", Text, nullable=False, default=EMPTY_IDENTITY),
    # Totals over filled blocks, so that the cost of listing channels does not depend on their length.
    Column("blocks", BigInteger, nullable=False, default=1),
    Column("rows", BigInteger, nullable=False, default=0),
    Column("bytes", BigInteger, nullable=False, default=0),
    # The newest block whose description expired: below it, missing blocks may have existed.
    Column("expired_seq", BigInteger, nullable=False, default=0, server_default="0"),
    Index("channels_name", "name", unique=True),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False, default=0),
    Column("attempts", Integer, nullable=False),  # that its tasks allow
    Column(
        "lost_attempts", Integer, nullable=False, default=0, server_default="0"
    ),  # attempts lost without a fault of the tasks
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
Index(
    "runs_one_under_way_per_flow",
    runs.c.subject,
    unique=True,
    sqlite_where=IS_ACTIVE_FLOW,
    postgresql_where=IS_ACTIVE_FLOW,
)

blocks = Table(
    "blocks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("channel_id", Id, ForeignKey("channels.id"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("since", BigInteger),
    Column("schema", SchemaText),
    Column("updates", UpdatesText, nullable=False),
    Column("rows", BigInteger, nullable=False, default=0),
    Column("bytes", BigInteger, nullable=False, default=0),
    Column("source", ProvenanceText, nullable=False, default=EMPTY_PROVENANCE),
    Column("target", ProvenanceText, nullable=False, default=EMPTY_PROVENANCE),
    Column("provenance", ProvenanceText, nullable=False, default=EMPTY_PROVENANCE),
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
Index("blocks_reserved", blocks.c.channel_id, blocks.c.seq, sqlite_where=IS_RESERVED, postgresql_where=IS_RESERVED)

IS_NOT_COMPACTED = blocks.c.origin != literal_column(f"'{BlockOrigin.COMPACTION}'")
IS_BASE = blocks.c.kind == literal_column(f"'{BlockKind.BASE}'")
for _name, _condition in (("blocks_reservation", IS_NOT_COMPACTED), ("blocks_base", IS_BASE)):
    Index(
        _name,
        blocks.c.channel_id,
        blocks.c.seq,
        unique=True,
        sqlite_where=_condition,
        postgresql_where=_condition,
    )

IS_READABLE_BASE = and_(IS_BASE, blocks.c.state == literal_column(f"'{BlockState.FILLED}'"))
Index(
    "blocks_readable_bases",
    blocks.c.channel_id,
    blocks.c.seq,
    sqlite_where=IS_READABLE_BASE,
    postgresql_where=IS_READABLE_BASE,
)

IS_TO_PURGE = blocks.c.collected.is_not(None)
Index("blocks_to_purge", blocks.c.collected, sqlite_where=IS_TO_PURGE, postgresql_where=IS_TO_PURGE)

pin_holds = Table(  # blocks that a pin excludes from garbage collection: the pinned block and its inputs
    "pin_holds",
    metadata,
    Column("pin", Id, ForeignKey("blocks.id"), primary_key=True, autoincrement=False),
    Column("block_id", Id, ForeignKey("blocks.id"), primary_key=True, autoincrement=False),
    Index("pin_holds_block", "block_id"),
)

files = Table(
    "files",
    metadata,
    Column("block_id", Id, ForeignKey("blocks.id"), primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("path", Text, nullable=False),  # a compacted base may share files of the previous base
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Index("files_path", "path"),
)

removals = Table(  # paths marked for removal from the store after a grace period
    "removals",
    metadata,
    Column("path", Text, primary_key=True),
    Column("run_id", Id, ForeignKey("runs.id")),  # the run that wrote it, or whose block referred to it last
    Column("kind", Text, nullable=False),
    Column("marked", Double, nullable=False),
    Index("removals_marked", "marked"),
    Index("removals_run", "run_id"),
)

insert_keys = Table(  # idempotency keys, by which a repeated insert finds the first
    "insert_keys",
    metadata,
    Column("channel_id", Id, ForeignKey("channels.id"), primary_key=True, autoincrement=False),
    Column("key", Text, primary_key=True),
    Column("block_id", Id, ForeignKey("blocks.id"), nullable=False),
    Index("insert_keys_block", "block_id"),
)

producers = Table(  # the last message of each producer
    "producers",
    metadata,
    Column("channel_id", Id, ForeignKey("channels.id"), primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("last", BigInteger, nullable=False),  # the number of the newest message in the channel
    Column("at", Double, nullable=False),  # its time of arrival
)

bindings = Table(
    "bindings",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("workflow", Text, ForeignKey("workflows.name"), nullable=False),
    Column("identity", Text, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("active", Boolean, nullable=False, default=True),
    Index("bindings_name", "name", unique=True),
)

cursors = Table(
    "cursors",
    metadata,
    Column("binding_id", Id, ForeignKey("bindings.id"), primary_key=True, autoincrement=False),
    Column("task", Text, primary_key=True),
    Column("channel_id", Id, ForeignKey("channels.id"), primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("provenance", ProvenanceText, nullable=False),
    Column("content", Text, nullable=False),
    Index("cursors_channel", "channel_id"),
)

costs = Table(  # cost models of tasks' variants, fitted from past runs
    "costs",
    metadata,
    Column("binding_id", Id, ForeignKey("bindings.id"), primary_key=True, autoincrement=False),
    Column("task", Text, primary_key=True),
    Column("variant", Text, primary_key=True),
    Column("model", JSON, nullable=False),
)

analyses = Table(  # cached analyses of queries and functions by Spark, by the identities of the requests
    "analyses",
    metadata,
    Column("key", Text, primary_key=True),
    Column("answer", JSON, nullable=False),
)

channel_merge_costs = Table(  # readers' merge costs since the newest base, and the cost of a new base
    "channel_merge_costs",
    metadata,
    Column("channel_id", Id, ForeignKey("channels.id"), primary_key=True, autoincrement=False),
    Column("reads", BigInteger, nullable=False),  # that had deltas to merge
    Column("seconds", Double, nullable=False),  # seconds
    Column("rewrite_cost", JSON),  # the cost model of new bases, fitted from past ones
    Column("interactive_reads", BigInteger, nullable=False),  # interactive reads, never reset
)

setting_overrides = Table(  # overrides of settings of all running servers
    "setting_overrides",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", JSON, nullable=False),
)

run_reads = Table(
    "run_reads",
    metadata,
    Column("run_id", Id, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("task", Text, primary_key=True),
    Column("channel_id", Id, ForeignKey("channels.id"), primary_key=True, autoincrement=False),
    Column("since", BigInteger),
    Column("upto", BigInteger, nullable=False),
    Index("run_reads_channel", "channel_id", "upto"),
)

logs = Table(
    "logs",
    metadata,
    Column("run_id", Id, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("run_id", Id, ForeignKey("runs.id")),
    Column("detail", JSON, nullable=False),
    Index("events_run", "run_id"),
)

triggers = Table(  # their leaves
    "triggers",
    metadata,
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
    Column(
        "lead", Double, nullable=False, default=0.0, server_default="0"
    ),  # of a freshness target: seconds to be due earlier
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
Index("triggers_due", triggers.c.due, sqlite_where=IS_ARMED, postgresql_where=IS_ARMED)

firings = Table(
    "firings",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Double, nullable=False),
    Column("flow", Text, nullable=False),
    Column("trigger", JSON, nullable=False),
    Column("missed", BigInteger, nullable=False),
    Column("run_id", Id, nullable=False),  # the run that handles it; it may have expired
    Index("firings_flow", "flow", "id"),
    Index("firings_run", "run_id"),
)

leases = Table(  # for work that one server does for all
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("fencing_token", BigInteger, nullable=False),
    Column("until", Double, nullable=False),
)

consumer_offsets = Table(  # offsets of the consumers of events
    "consumer_offsets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("event", BigInteger, nullable=False),
)

failing_flows = Table(  # flows whose last run failed, as of the last notices
    "failing_flows",
    metadata,
    Column("flow", Text, primary_key=True),
    Column("since", Double, nullable=False),
)

notices = Table(
    "notices",
    metadata,
    Column("id", Id, primary_key=True),
    Column("receiver", Text, nullable=False),
    Column("kind", Text, nullable=False),
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

servers = Table(
    "servers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),  # "up" or "work"
    Column("tracks", Integer, nullable=False),
    Column("started", Double, nullable=False),
    Column("last_heartbeat", Double, nullable=False),
    Column("state", Text, nullable=False),  # "serving", "recovering", "draining" or "stopped"
)

# Access to the API: users, their tokens and workflows, and the audit log.

users = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("active", Boolean, nullable=False, default=True),  # false: removed; the audit log may still refer to it
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user", Text, ForeignKey("users.name"), nullable=False),
    Column("label", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 of the secret, which is long and random
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("revoked", Double),
    Index("tokens_user", "user"),
)

workflow_owners = Table(  # a workflow without owners can be operated by every operator
    "workflow_owners",
    metadata,
    Column("workflow", Text, primary_key=True),  # owners may be set before it is first applied
    Column("user", Text, ForeignKey("users.name"), primary_key=True),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Double, nullable=False),
    Column("user", Text, nullable=False),
    Column("token", Text),
    Column("address", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("outcome", Integer),  # HTTP status of the response; NULL while there is none
)
