"""Applying a workflow: what it declares is registered, changed, or removed from use. Data are never touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import Table, delete, insert, or_, select, update

from tidemill.catalog import triggers
from tidemill.catalog.engine import exclusively
from tidemill.catalog.events import EventKind
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.tables import bindings, blocks, channels, cursors, workflows
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict, NotFound
from tidemill.model.block import BlockState, Kind, Origin
from tidemill.model.change import Updates
from tidemill.model.channel import Channel
from tidemill.model.codec import Json, binding_to_json
from tidemill.model.flow import Binding
from tidemill.model.workflow import Workflow

_LOCK = 0x71DE0002


def apply(tx: Transaction, workflow: Workflow, document: Json | None = None) -> None:
    """`document`: what declares it, if no file does."""
    exclusively(tx.connection, _LOCK)
    _register_workflow(tx, workflow.name)
    _apply_channels(tx, workflow)
    _apply_bindings(tx, workflow)
    tx.connection.execute(update(workflows).where(workflows.c.name == workflow.name).values(document=document))
    if tx.changed:
        tx.connection.execute(update(workflows).where(workflows.c.name == workflow.name).values(applied=tx.now))


def remove(tx: Transaction, name: str) -> None:
    """Take a workflow out of use; its data stay, for whoever declares the same channels again."""
    if not tx.connection.execute(select(workflows.c.name).where(workflows.c.name == name)).first():
        raise NotFound(f"there is no workflow {name!r}; list them with: tidemill workflows")
    apply(tx, Workflow(name, (), ()))
    tx.note(EventKind.WORKFLOW_REMOVED, name)


def _register_workflow(tx: Transaction, name: str) -> None:
    if not tx.connection.execute(select(workflows).where(workflows.c.name == name)).first():
        tx.connection.execute(insert(workflows).values(name=name, applied=tx.now))


def _apply_channels(tx: Transaction, workflow: Workflow) -> None:
    known = _known(tx, channels, workflow.name, [c.name for c in workflow.channels])
    for channel in workflow.channels:
        row = known.pop(channel.name, None)
        if row is None:
            _register(tx, workflow.name, channel)
        else:
            _check_owner(row, "channel", workflow.name)
            _change_channel(tx, workflow.name, channel, row)
    _remove(tx, channels, known, EventKind.CHANNEL_REMOVED)


def _apply_bindings(tx: Transaction, workflow: Workflow) -> None:
    known = _known(tx, bindings, workflow.name, [b.name for b in workflow.bindings])
    for binding in workflow.bindings:
        row = known.pop(binding.name, None)
        if row is not None:
            _check_owner(row, "bound flow", workflow.name)
        _apply_binding(tx, workflow.name, binding, row)
    _remove(tx, bindings, known, EventKind.BINDING_REMOVED)
    for gone in known.values():
        triggers.remove(tx, gone.id)


def _known(tx: Transaction, table: Table, workflow: str, names: list[str]) -> dict[str, AnyRow]:
    """What is registered under these names, and what the workflow has in use; locked by id, as everywhere."""
    in_use = (table.c.workflow == workflow) & table.c.active
    query = select(table).where(or_(table.c.name.in_(names), in_use)).order_by(table.c.id).with_for_update()
    return {row.name: row for row in tx.connection.execute(query)}


def _check_owner(row: AnyRow, what: str, workflow: str) -> None:
    if row.active and row.workflow != workflow:
        raise Conflict(
            f"{what} {row.name!r} belongs to workflow {row.workflow!r}, so workflow {workflow!r} cannot declare it; "
            "use another name, or remove it there first"
        )


def _remove(tx: Transaction, table: Table, rows: Mapping[str, AnyRow], kind: EventKind) -> None:
    for row in rows.values():
        tx.connection.execute(update(table).where(table.c.id == row.id).values(active=False))
        tx.note(kind, row.name, workflow=row.workflow)


def _register(tx: Transaction, workflow: str, channel: Channel) -> None:
    new = _declaration(workflow, channel) | {"name": channel.name, "schema": channel.schema}
    row = tx.connection.execute(insert(channels).values(new).returning(channels.c.id)).one()
    first = {
        "channel_id": row.id,
        "seq": 0,
        "kind": Kind.BASE,
        "state": BlockState.FILLED,
        "origin": Origin.FIRST,
        "schema": channel.schema,
        "updates": channel.updates,
        "visible": 0,
    }
    tx.connection.execute(insert(blocks).values(first))
    tx.note(EventKind.CHANNEL_REGISTERED, channel.name, workflow=workflow, role=channel.role)


def _declaration(workflow: str, channel: Channel) -> Json:
    return {
        "role": channel.role,
        "workflow": workflow,
        "active": True,
        "declared": channel.schema,
        "updates": channel.updates,
        "promise": channel.promise,
    }


def _change_channel(tx: Transaction, workflow: str, channel: Channel, row: AnyRow) -> None:
    changes = _differences(row, _declaration(workflow, channel))
    if not changes:
        return
    _check_changes(tx, row, changes)
    # A schema that is no longer declared stays known from the blocks.
    learnt = {"schema": changes["declared"]} if changes.get("declared") else {}
    tx.connection.execute(update(channels).where(channels.c.id == row.id).values(changes | learnt))
    kind = EventKind.CHANNEL_CHANGED if row.active else EventKind.CHANNEL_RESTORED
    tx.note(kind, channel.name, workflow=workflow, changed=sorted(changes))


def _differences(row: AnyRow, wanted: Json) -> Json:
    return {name: value for name, value in wanted.items() if row._mapping[name] != value}


def _check_changes(tx: Transaction, row: AnyRow, changes: Json) -> None:
    problems = list(_impossible(row, changes))
    if problems and _holds_data(tx, row):
        raise Conflict(
            f"channel {row.name!r} already holds data, so it cannot change {' and '.join(problems)}; "
            "declare the new one under another name"
        )


def _impossible(row: AnyRow, changes: Json) -> Iterator[str]:
    """What blocks already written would contradict."""
    if "role" in changes:
        yield f"from {row.role} to {changes['role']}"
    before, after = _merging(row.updates), _merging(changes.get("updates", row.updates))
    if before != after:
        yield f"how updates merge from {before} to {after}"


def _merging(updates: Updates) -> str:
    return f"{updates.name}({', '.join(updates.key)})" if updates.key else updates.name


def _holds_data(tx: Transaction, row: AnyRow) -> bool:
    beyond = select(blocks.c.id).where(blocks.c.channel_id == row.id, blocks.c.seq > 0)
    return tx.connection.execute(beyond.where(blocks.c.state != BlockState.CANCELLED).limit(1)).first() is not None


def _apply_binding(tx: Transaction, workflow: str, binding: Binding, row: AnyRow | None) -> None:
    wanted = {
        "workflow": workflow,
        "identity": binding.identity(),
        "spec": binding_to_json(binding),
        "active": True,
    }
    if row is None:
        adding = insert(bindings).values(wanted | {"name": binding.name}).returning(bindings.c.id)
        _register_triggers(tx, tx.connection.execute(adding).scalar_one(), workflow, binding)
    elif changes := _differences(row, wanted):
        tx.connection.execute(update(bindings).where(bindings.c.id == row.id).values(changes))
        _register_triggers(tx, row.id, workflow, binding)
        _start_afresh(tx, row, binding_to_json(binding))
    else:
        return
    tx.note(EventKind.BINDING_APPLIED, binding.name, workflow=workflow, identity=wanted["identity"])


def _register_triggers(tx: Transaction, binding_id: int, workflow: str, binding: Binding) -> None:
    paused = tx.connection.execute(select(workflows.c.paused).where(workflows.c.name == workflow)).scalar_one()
    triggers.register(tx, binding_id, binding, paused=paused)


def _start_afresh(tx: Transaction, row: AnyRow, spec: Json) -> None:
    """A declared table whose query changed goes on from nothing: what it kept belongs to the query before."""
    before = {t["name"]: t["identity"] for t in row.spec["tasks"]}
    for task in spec["tasks"]:
        if task["code"] == "refresh" and before.get(task["name"]) != task["identity"]:
            its = (cursors.c.binding_id == row.id) & (cursors.c.task == task["name"])
            tx.connection.execute(delete(cursors).where(its))
