"""`channels`, `blocks`, `trace` and `lineage`: what is stored, and where it came from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from tidemill.app import serialization
from tidemill.app.serialization import moment
from tidemill.cli import tables
from tidemill.cli.formatting import NONE, ago, count, size
from tidemill.cli.options import AsJson, Every, Limit, opened
from tidemill.cli.output import fields, show, table
from tidemill.model.block import Block
from tidemill.model.provenance import Provenance
from tidemill.model.timestamps import iso
from tidemill.runtime.inspect.block_trace import Source
from tidemill.runtime.inspect.status import ChannelStatus, reflected, status, without_states

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def register(app: typer.Typer) -> None:
    app.command()(channels)
    app.command()(blocks)
    app.command()(trace)
    app.command()(lineage)


def channels(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Show this channel in full.")] = None,
    every: Every = False,
    as_json: AsJson = False,
) -> None:
    """List the channels; or show one of them with its schema and its readers."""
    with opened(ctx) as mill:
        if name is None:
            known = status(mill.catalog)
            found = (known if every else without_states(known)).channels
            document = {"channels": [serialization.channel(c) for c in found]}
            show(as_json, document, tables.channels(found, mill.catalog.now()))
        else:
            one = _named(mill, name)
            compaction = mill.compaction(name)
            whole = {"channel": serialization.channel(one), "compaction": compaction}
            show(as_json, whole, _details(one, compaction, mill.catalog.now()))


def _named(mill: Tidemill, name: str) -> ChannelStatus:
    """A channel that is no longer declared can still be looked at; nobody reads it."""
    registered = mill.catalog.channel(name)
    declared = (c for c in status(mill.catalog).channels if c.registered.channel.name == name)
    return next(declared, ChannelStatus(registered, reflected(registered.head.reached), ()))


def _details(value: ChannelStatus, compaction: str | None, now: float) -> RenderableType:
    known = value.registered
    schema = known.channel.schema
    return fields(
        [
            ("channel", known.channel.name),
            ("workflow", known.workflow),
            ("role", known.channel.role),
            ("updates", tables.updates(known.channel.updates)),
            ("schema", [str(f) for f in schema] if schema else "that of the first block"),
            ("head", count(known.head.seq)),
            ("rows", NONE if value.rows is None else count(value.rows)),
            ("blocks", count(known.blocks)),
            ("rows in blocks", count(known.rows)),
            ("size", size(known.bytes)),
            ("slots held now", count(known.reserved)),
            ("reflects", [tables.reflected(r, now) for r in value.reflects]),
            ("consumers", [tables.consumer(c) for c in value.consumers]),
            ("compaction", compaction or "nothing was written yet"),
        ]
    )


def blocks(
    ctx: typer.Context,
    channel: Annotated[str | None, typer.Argument(help="Only blocks of this channel.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List blocks, the newest first."""
    with opened(ctx) as mill:
        found, now = mill.catalog.blocks(channel, limit), mill.catalog.now()
    document = {"blocks": [serialization.block(b) for b in found]}
    show(as_json, document, tables.blocks("", found, now, empty="no blocks"))


def trace(
    ctx: typer.Context,
    block: Annotated[int, typer.Argument(help="The block's number; `tidemill blocks` lists them.")],
    as_json: AsJson = False,
) -> None:
    """Show what a block was made from, and what was made from it."""
    with opened(ctx) as mill:
        traced, now = mill.trace(block), mill.catalog.now()
    sources = [tables.blocks(f"made from {_span(s)}", s.blocks, now) for s in traced.sources]
    made = tables.blocks("made from it", traced.made, now)
    show(as_json, serialization.trace(traced), _block(traced.block, now), *sources, made)


def lineage(
    ctx: typer.Context,
    channel: Annotated[str, typer.Argument(help="The channel that has the event.")],
    tag: Annotated[str, typer.Argument(help="Its tag, as in the column `wave`, such as '17.3!'.")],
    as_json: AsJson = False,
) -> None:
    """Show what an event derives from, and what was made of it."""
    with opened(ctx) as mill:
        document = serialization.lineage(mill.lineage(channel, tag))
    rows = ([r["relation"], r["channel"], r["tag"], json.dumps(r["row"])] for r in document["relatives"])
    show(as_json, document, table(f"{channel} {tag}", ("it", "channel", "tag", "row"), rows))


def _span(source: Source) -> str:
    gone = ", some of it forgotten" if source.forgotten else ""
    if source.since is None:
        return f"all of {source.channel} up to {source.upto}{gone}"
    return f"what is new in {source.channel} after {source.since} up to {source.upto}{gone}"


def _block(value: Block, now: float) -> RenderableType:
    return fields(
        [
            ("block", value.id),
            ("channel", f"{value.channel} at {value.seq}"),
            ("kind", value.kind if value.since is None else f"{value.kind} since {value.since}"),
            ("state", tables.state(value.state)),
            ("made by", tables.made_by(value)),
            ("rows", count(value.rows)),
            ("size", size(value.bytes)),
            ("starts from", _versions(value.source, now)),
            ("leads to", _versions(value.target, now)),
            ("identity", value.identity),
        ]
    )


def _versions(provenance: Provenance, now: float) -> list[str]:
    return [
        f"{' > '.join(r.pathway)}: {', '.join(f'{iso(moment(v))} ({ago(moment(v), now)})' for v in r.versions)}"
        for r in reflected(provenance)
    ]
