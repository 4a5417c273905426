"""`channels`, `blocks`, `trace` and `lineage`: the stored data, and its origin."""

import json
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import RenderableType

from tidemill.app import inspection, serialization
from tidemill.cli import tables
from tidemill.cli.command import Every, Limit, Tidemill
from tidemill.cli.output import Answer, build_fields, build_table, render_list
from tidemill.display import columns
from tidemill.display.formatting import format_age, format_count, to_timestamp
from tidemill.display.table import show_state
from tidemill.model.block import Block
from tidemill.model.provenance import Provenance
from tidemill.model.timestamps import format_iso
from tidemill.model.units import format_size
from tidemill.runtime.inspect.block_trace import MAX_TRACE_DEPTH, BlockTrace, TraceSource
from tidemill.runtime.inspect.status import ChannelStatus, list_reflected_versions
from tidemill.wire import schemas


def channels(
    mill: Tidemill,
    name: Annotated[str | None, typer.Argument(help="Show this channel in full.")] = None,
    every: Every = False,
) -> Answer:
    """List the channels; or show one of them with its schema and its consumers."""
    now = mill.catalog.read_time()
    if name is None:
        listed = inspection.read_visible_status(mill.catalog, every=every).channels
        return Answer(schemas.ChannelListDocument.build(channels=listed), tables.render_channels(listed, now))
    channel, compaction = inspection.find_channel_status(mill.catalog, name), mill.compaction(name)
    document = schemas.ChannelDetailsDocument.build(channel=channel, compaction=compaction)
    return Answer(document, _render_channel(channel, compaction, now))


def _render_channel(value: ChannelStatus, compaction: str | None, now: float) -> RenderableType:
    registered = value.registered
    schema = registered.channel.schema
    return build_fields(
        [
            ("channel", registered.channel.name),
            ("workflow", registered.workflow),
            ("role", registered.channel.role),
            ("updates", columns.format_updates(registered.channel.updates)),
            ("schema", [str(f) for f in schema] if schema else "from the first block"),
            ("head", format_count(registered.head.seq)),
            ("rows", format_count(value.rows)),
            ("blocks", format_count(registered.blocks)),
            ("rows in blocks", format_count(registered.rows)),
            ("size", format_size(registered.bytes)),
            ("reserved", format_count(registered.reserved)),
            ("reflects", tables.format_reflected(value.reflects, now)),
            ("consumers", [tables.format_consumer(c) for c in value.consumers]),
            ("compaction", compaction or "nothing was written yet"),
        ]
    )


def blocks(
    mill: Tidemill,
    channel: Annotated[str | None, typer.Argument(help="Only blocks of this channel.")] = None,
    limit: Limit = 20,
) -> Answer:
    """List blocks, the newest first."""
    block_list, now = mill.catalog.blocks.list(channel, limit), mill.catalog.read_time()
    document = schemas.BlockListDocument.build(blocks=block_list)
    return Answer(document, render_list("", tables.BLOCK, block_list, now, empty="no blocks"))


def trace(
    mill: Tidemill,
    block: Annotated[int, typer.Argument(help="The block's number; `tidemill blocks` lists them.")],
    depth: Annotated[int, typer.Option(min=1, max=MAX_TRACE_DEPTH, help="The steps to follow in each direction.")] = 1,
) -> Answer:
    """Show the sources of a block, and the blocks derived from it, over one or more steps."""
    traced, now = mill.trace(block, depth), mill.catalog.read_time()
    sources = [render_list(_format_source(s), tables.BLOCK, s.blocks, now) for s in traced.sources]
    rest = [] if traced.is_complete else ["there are more blocks; trace one of these"]
    derived = (render_list(title, tables.BLOCK, values, now) for title, values in _list_derived(traced))
    document = schemas.TraceDocument.model_validate(traced)
    return Answer(document, _render_block(traced.block, now), *sources, *derived, *rest)


def _format_source(source: TraceSource) -> str:
    if source.step == 1:
        return f"derived from {_format_span(source)}"
    return f"step {source.step}: {_format_numbers(source.derived_blocks)} derived from {_format_span(source)}"


def _list_derived(traced: BlockTrace) -> Iterator[tuple[str, list[Block]]]:
    """The derived blocks of each step, with their title."""
    by_step: dict[int, list[Block]] = {1: []}
    for block, derivation in zip(traced.derived, traced.derivations, strict=True):
        by_step.setdefault(derivation.step, []).append(block)
    for step, blocks in by_step.items():
        yield "blocks derived from it" if step == 1 else f"step {step}: blocks derived from those", blocks


def _format_numbers(blocks: Sequence[int]) -> str:
    """
    >>> _format_numbers((7,)), _format_numbers(range(1, 9))
    ('block 7', 'blocks 1, 2, 3, 4, 5 and 3 others')
    """
    shown = ", ".join(map(str, blocks[:5]))
    rest = f" and {len(blocks) - 5} others" if len(blocks) > 5 else ""
    return f"block{'s' if len(blocks) > 1 else ''} {shown}{rest}"


def lineage(
    mill: Tidemill,
    channel: Annotated[str, typer.Argument(help="The channel that has the event.")],
    tag: Annotated[str, typer.Argument(help="Its lineage tag, as in the column `wave`, such as '17.3!'.")],
) -> Answer:
    """Show the ancestors and the descendants of an event."""
    document = serialization.serialize_lineage(mill.lineage(channel, tag))
    rows = ([r.relation, r.channel, r.lineage_tag, json.dumps(r.row)] for r in document.relatives)
    return Answer(document, build_table(f"{channel} {tag}", ("it", "channel", "tag", "row"), rows))


def _format_span(source: TraceSource) -> str:
    suffix = ", some of it expired" if source.expired else ""
    if source.since is None:
        return f"all of {source.channel} up to {source.upto}{suffix}"
    return f"changes of {source.channel} after {source.since} up to {source.upto}{suffix}"


def _render_block(value: Block, now: float) -> RenderableType:
    return build_fields(
        [
            ("block", value.id),
            ("channel", f"{value.channel} at {value.seq}"),
            ("kind", value.kind if value.since is None else f"{value.kind} since {value.since}"),
            ("state", show_state(value.state)),
            ("made by", columns.format_origin(value)),
            ("rows", format_count(value.rows)),
            ("size", format_size(value.bytes)),
            ("starts from", _format_versions(value.source, now)),
            ("leads to", _format_versions(value.target, now)),
            ("identity", value.identity),
        ]
    )


def _format_versions(provenance: Provenance, now: float) -> list[str]:
    return [
        f"{' > '.join(r.pathway)}: "
        + ", ".join(f"{format_iso(to_timestamp(v))} ({format_age(to_timestamp(v), now)})" for v in r.versions)
        for r in list_reflected_versions(provenance)
    ]
