"""Reuse of blocks: a deterministic task does not compute again what it, or another one, computed from the same inputs.

The new block shares the files of the old one. They cannot be removed meanwhile: files of a block that is collected
after this run was claimed stay until the run has ended, and afterwards the new block refers to them.
"""

from collections.abc import Mapping

from tidemill.model.block import Block, BlockKind
from tidemill.model.identity import Identity
from tidemill.model.stateful import Stateful
from tidemill.model.task import ReadMode, Refresh, Task, TaskOutput
from tidemill.ports.catalog import BlockQueries
from tidemill.ports.storage import BlockStore
from tidemill.runtime.runs.views import ChannelViews


def can_reuse_blocks(task: Task) -> bool:
    """Whether the results of a task may be those of an earlier run: it is declared deterministic, and its outputs are
    full contents that follow from the full contents of its inputs.

    By default a programmed task is run, since it may read from outside. Environment variables are not part of the
    identities of blocks.
    """
    return (
        task.deterministic is True
        and not task.environment
        and not isinstance(task.variant.code, Refresh | Stateful)
        and not task.state_ports
        and all(r.mode is ReadMode.ALL and not r.from_start for r in task.reads)
        and all(_is_full_content(w) for w in task.writes)
    )


def _is_full_content(output: TaskOutput) -> bool:
    is_partial = output.void or output.merges_into_empty or output.watermark_column is not None
    return output.kind is BlockKind.BASE and not is_partial


def find_reusable_blocks(
    blocks: BlockQueries, store: BlockStore, views: ChannelViews, task: Task, identities: Mapping[str, Identity]
) -> dict[str, Block] | None:
    """The stored blocks with the identities of all outputs of a task, by argument; None unless all can be reused."""
    if not can_reuse_blocks(task):
        return None
    found = {w.argument: blocks.find_base(identities[w.argument]) for w in task.writes}
    reusable = {
        w.argument: block
        for w in task.writes
        if (block := found[w.argument]) is not None and _has_same_form(views, w.port, block)
    }
    paths = [file.path for block in reusable.values() for file in block.files]
    return reusable if len(reusable) == len(found) and not store.find_missing(paths) else None


def _has_same_form(views: ChannelViews, channel: str, block: Block) -> bool:
    """Whether the rows of a block are written as the channel requires it."""
    declared = views.get_channel(channel).declared
    return declared in (None, block.schema) and views.get_updates(channel) == views.get_updates(block.channel)
