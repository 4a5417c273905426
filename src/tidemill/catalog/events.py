"""What the event log can say. The words are stable: people and programs filter by them."""

from __future__ import annotations

from enum import StrEnum


class EventKind(StrEnum):
    """`subject` is the channel, the bound flow or workflow/action; of a run, that which the run is about."""

    RUN_REQUESTED = "run.requested"
    RUN_TAKEN = "run.taken"  # a server has it, and does first what must come before
    RUN_CLAIMED = "run.claimed"  # slots reserved, lease taken
    RUN_BEGAN = "run.began"  # the engine has begun
    RUN_RELEASED = "run.released"  # whoever had taken it gave it back, to look again later
    RUN_FINISHED = "run.finished"
    RUN_OUTDATED = "run.outdated"  # it finished, but queries of its flow were changed meanwhile: they start afresh
    RUN_RETRIED = "run.retried"  # an attempt failed, or lost its lease; the run is ready again
    RUN_FAILED = "run.failed"
    RUN_KILLED = "run.killed"

    RUN_WOKEN = "run.woken"  # all that it waited for is there

    SUBMISSION_MADE = "submission.made"  # of a one-shot workflow
    DATASET_MOVED = "dataset.moved"  # from one state to another
    DATASET_PINNED = "dataset.pinned"  # never evicted from now on
    DATASET_UNPINNED = "dataset.unpinned"
    DATASET_PLACED = "dataset.placed"  # a copy was put where a user wants it

    BLOCK_FILLED = "block.filled"
    BLOCK_CANCELLED = "block.cancelled"
    BLOCK_PINNED = "block.pinned"  # never collected from now on, nor what it was made from
    BLOCK_UNPINNED = "block.unpinned"
    BLOCK_COLLECTED = "block.collected"  # hidden from new readers
    BLOCK_PURGED = "block.purged"  # its files marked for removal, as far as no other block names them

    FILES_MARKED = "files.marked"  # the directory of an attempt that ended without a result, or files nothing names
    FILES_REMOVED = "files.removed"  # what was marked is gone from the store
    STORE_ADOPTED = "store.adopted"  # it belongs to this catalog from now on

    CHANNEL_ADVANCED = "channel.advanced"  # the head moved: blocks became visible
    CHANNEL_REGISTERED = "channel.registered"
    CHANNEL_CHANGED = "channel.changed"
    CHANNEL_SCHEMA = "channel.schema"  # a block brought another one
    CHANNEL_REMOVED = "channel.removed"  # no longer declared; its data are kept
    CHANNEL_RESTORED = "channel.restored"  # declared again

    BINDING_APPLIED = "binding.applied"  # new, changed, or declared again
    BINDING_REMOVED = "binding.removed"

    TRIGGER_FIRED = "trigger.fired"  # the run is the one that handles it
    WORKFLOW_REMOVED = "workflow.removed"  # from use; its data are kept
    WORKFLOW_PAUSED = "workflow.paused"
    WORKFLOW_RESUMED = "workflow.resumed"
    WORKFLOW_PRIORITISED = "workflow.prioritised"
