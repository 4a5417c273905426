"""The kinds of events in the event log. Their names are stable, since users and programs filter by them."""

from enum import StrEnum


class EventKind(StrEnum):
    """The subject of an event is a channel, a bound flow or workflow/action; for a run, the run's subject.

    The subject of a budget is what it is for: datasets, those of a workflow, or blocks of channels.
    """

    RUN_REQUESTED = "run.requested"
    RUN_ACQUIRED = "run.acquired"  # a server acquired its lease and prepares it
    RUN_CLAIMED = "run.claimed"  # reservations made, lease acquired
    RUN_STARTED = "run.started"  # the engine started it
    RUN_RELEASED = "run.released"  # the server released it for a later attempt
    RUN_FINISHED = "run.finished"
    RUN_OUTDATED = "run.outdated"  # it finished, but queries of its flow were changed meanwhile: they are recomputed
    RUN_RETRIED = "run.retried"  # an attempt failed, or lost its lease; the run is ready again
    RUN_FAILED = "run.failed"
    RUN_KILLED = "run.killed"

    RUN_RESCHEDULED = "run.rescheduled"  # all its inputs are available

    SUBMISSION_CREATED = "submission.created"  # of a one-shot workflow
    DATASET_MOVED = "dataset.moved"  # from one state to another
    DATASET_PINNED = "dataset.pinned"  # excluded from eviction
    DATASET_UNPINNED = "dataset.unpinned"
    DATASET_EXPORTED = "dataset.exported"  # a copy was written to a user's path

    BLOCK_FILLED = "block.filled"
    BLOCK_CANCELLED = "block.cancelled"
    BLOCK_PINNED = "block.pinned"  # it and its inputs are excluded from garbage collection
    BLOCK_UNPINNED = "block.unpinned"
    BLOCK_COLLECTED = "block.collected"  # garbage-collected: hidden from new readers
    BLOCK_PURGED = "block.purged"  # its files, unless shared with another block, are marked for removal

    FILES_MARKED = "files.marked"  # the directory of an attempt that ended without a result, or unreferenced files
    FILES_REMOVED = "files.removed"  # marked files were removed from the store
    STORE_ADOPTED = "store.adopted"  # it belongs to this catalog from now on

    CHANNEL_ADVANCED = "channel.advanced"  # the head moved: blocks became visible
    CHANNEL_REGISTERED = "channel.registered"
    CHANNEL_CHANGED = "channel.changed"
    CHANNEL_SCHEMA = "channel.schema"  # a block changed the schema
    CHANNEL_REMOVED = "channel.removed"  # no longer declared; its data are kept
    CHANNEL_RESTORED = "channel.restored"  # declared again

    TARGET_MISSED = "target.missed"  # the freshness target of a channel
    TARGET_MET = "target.met"  # again
    STORAGE_EXCEEDED = "storage.exceeded"  # they use more than the threshold of a budget
    STORAGE_REDUCED = "storage.reduced"  # they use clearly less again

    BINDING_APPLIED = "binding.applied"  # new, changed, or declared again
    BINDING_REMOVED = "binding.removed"

    TRIGGER_FIRED = "trigger.fired"  # the run is the one that handles it
    WORKFLOW_REMOVED = "workflow.removed"  # from use; its data are kept
    WORKFLOW_PAUSED = "workflow.paused"
    WORKFLOW_RESUMED = "workflow.resumed"
    WORKFLOW_PRIORITISED = "workflow.prioritised"
