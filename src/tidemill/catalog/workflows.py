"""Workflows: applying one registers, changes or deactivates its channels and flows. Data are never changed."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, or_, select, update

from tidemill.catalog.database import CatalogPart, in_snapshot, in_transaction
from tidemill.catalog.engine import acquire_lock
from tidemill.catalog.events import EventKind
from tidemill.catalog.rows import AnyRow, build_reader, to_binding, to_task
from tidemill.catalog.tables import IS_IN_USE, analyses, bindings, blocks, channels, cursors, triggers, workflows
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.triggers import register_triggers
from tidemill.errors import Conflict, NotFound
from tidemill.model.block import BlockKind, BlockOrigin, BlockState
from tidemill.model.change import Updates
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.codec import Json, binding_to_json
from tidemill.model.evolution import find_unreadable_changes
from tidemill.model.flow import BoundFlow
from tidemill.model.identity import Identity
from tidemill.model.schema import Schema
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.records import RegisteredBinding, RegisteredTask, RegisteredWorkflow

_LOCK = 0x71DE0002


class SqlWorkflowCatalog(CatalogPart):
    """A `WorkflowCatalog` over SQL."""

    @in_transaction
    def apply(self, tx: Transaction, workflow: WorkflowSpec, document: Json | None = None) -> None:
        _apply_workflow(tx, workflow, document)

    @in_transaction
    def remove(self, tx: Transaction, workflow: str) -> None:
        if not tx.execute(select(workflows.c.name).where(workflows.c.name == workflow)).first():
            raise NotFound(f"there is no workflow {workflow!r}; list them with: tidemill workflows")
        _apply_workflow(tx, WorkflowSpec(workflow, (), ()))
        tx.record_event(EventKind.WORKFLOW_REMOVED, workflow)

    @in_transaction
    def set_paused(self, tx: Transaction, workflow: str, *, paused: bool) -> None:
        _update_workflow(tx, workflow, paused=paused)
        of_workflow = triggers.c.binding_id.in_(select(bindings.c.id).where(bindings.c.workflow == workflow))
        tx.execute(update(triggers).where(of_workflow).values(paused=paused))
        tx.record_event(EventKind.WORKFLOW_PAUSED if paused else EventKind.WORKFLOW_RESUMED, workflow)

    @in_transaction
    def set_priority(self, tx: Transaction, workflow: str, priority: int) -> None:
        _update_workflow(tx, workflow, priority=priority)
        tx.record_event(EventKind.WORKFLOW_PRIORITISED, workflow, priority=priority)

    @in_snapshot
    def list_refusals(self, connection: Connection, workflow: WorkflowSpec) -> list[str]:
        query = select(channels).where(channels.c.name.in_([c.name for c in workflow.channels]))
        return _find_refusals(connection, workflow, {row.name: row for row in connection.execute(query)})

    @in_snapshot
    def read_analyses(self, connection: Connection) -> dict[str, Json]:
        return {row.key: row.answer for row in connection.execute(select(analyses))}

    @in_transaction
    def record_analyses(self, tx: Transaction, answers: Mapping[str, Json]) -> None:
        for key, answer in sorted(answers.items()):
            tx.upsert_row(analyses, {"key": key}, {"answer": answer})

    @in_snapshot
    def list(self, connection: Connection) -> list[RegisteredWorkflow]:
        rows = connection.execute(select(workflows).where(IS_IN_USE).order_by(workflows.c.name))
        return [_to_workflow(row) for row in rows]


_to_workflow = build_reader(RegisteredWorkflow)


def _apply_workflow(tx: Transaction, workflow: WorkflowSpec, document: Json | None = None) -> None:
    acquire_lock(tx.connection, _LOCK)
    if not tx.execute(select(workflows).where(workflows.c.name == workflow.name)).first():
        tx.execute(insert(workflows).values(name=workflow.name, applied=tx.now))
    _apply_channels(tx, workflow)
    _apply_bindings(tx, workflow)
    applied: Json = {"applied": tx.now} if tx.has_changes else {}
    values = {"document": document, **applied}
    tx.execute(update(workflows).where(workflows.c.name == workflow.name).values(values))


def _update_workflow(tx: Transaction, name: str, **values: Any) -> None:
    """Change a workflow that is applied now."""
    known = tx.execute(select(workflows.c.name).where(IS_IN_USE).order_by(workflows.c.name)).scalars().all()
    if name not in known:
        raise NotFound(f"there is no workflow {name!r}; known are {', '.join(known) or 'none'}")
    tx.execute(update(workflows).where(workflows.c.name == name).values(values))


def _apply_channels(tx: Transaction, workflow: WorkflowSpec) -> None:
    registered = _lock_registered(tx, channels, workflow.name, [c.name for c in workflow.channels])
    refusals = _find_refusals(tx.connection, workflow, registered)
    if refusals:
        raise Conflict("\n".join(refusals))
    for channel in workflow.channels:
        row = registered.pop(channel.name, None)
        if row is None:
            _register_channel(tx, workflow.name, channel)
        else:
            _change_channel(tx, workflow.name, channel, row)
    _deactivate_rows(tx, channels, registered, EventKind.CHANNEL_REMOVED)


def _apply_bindings(tx: Transaction, workflow: WorkflowSpec) -> None:
    registered = _lock_registered(tx, bindings, workflow.name, [b.name for b in workflow.bindings])
    for binding in workflow.bindings:
        row = registered.pop(binding.name, None)
        if row is not None:
            _check_owner(row, "bound flow", workflow.name)
        _apply_binding(tx, workflow.name, binding, row)
    _deactivate_rows(tx, bindings, registered, EventKind.BINDING_REMOVED)
    removed_ids = [row.id for row in registered.values()]
    tx.execute(delete(triggers).where(triggers.c.binding_id.in_(removed_ids)))


def _lock_registered(tx: Transaction, table: Table, workflow: str, names: list[str]) -> dict[str, AnyRow]:
    """The rows with these names, and the active rows of the workflow, locked in the order of ids."""
    is_active = (table.c.workflow == workflow) & table.c.active
    query = select(table).where(or_(table.c.name.in_(names), is_active)).order_by(table.c.id).with_for_update()
    return {row.name: row for row in tx.execute(query)}


def _check_owner(row: AnyRow, noun: str, workflow: str) -> None:
    if row.active and row.workflow != workflow:
        raise Conflict(
            f"{noun} {row.name!r} belongs to workflow {row.workflow!r}, so workflow {workflow!r} cannot declare it; "
            "use another name, or remove it there first"
        )


def _deactivate_rows(tx: Transaction, table: Table, rows: Mapping[str, AnyRow], kind: EventKind) -> None:
    for row in rows.values():
        tx.execute(update(table).where(table.c.id == row.id).values(active=False))
        tx.record_event(kind, row.name, workflow=row.workflow)


def _register_channel(tx: Transaction, workflow: str, channel: Channel) -> None:
    values = _build_declaration(workflow, channel) | {"name": channel.name, "schema": channel.schema}
    row = tx.execute(insert(channels).values(values).returning(channels.c.id)).one()
    first_block = {
        "channel_id": row.id,
        "seq": 0,
        "kind": BlockKind.BASE,
        "state": BlockState.FILLED,
        "origin": BlockOrigin.FIRST,
        "schema": channel.schema,
        "updates": channel.updates,
        "visible": 0,
    }
    tx.execute(insert(blocks).values(first_block))
    tx.record_event(EventKind.CHANNEL_REGISTERED, channel.name, workflow=workflow, role=channel.role)


def _build_declaration(workflow: str, channel: Channel) -> Json:
    return {
        "role": channel.role,
        "workflow": workflow,
        "active": True,
        "declared_schema": channel.schema,
        "updates": channel.updates,
        "freshness_target": channel.freshness_target,
    }


def _change_channel(tx: Transaction, workflow: str, channel: Channel, row: AnyRow) -> None:
    changes = _find_differences(row, _build_declaration(workflow, channel))
    if not changes:
        return
    # An undeclared schema stays that of the blocks; a declared one that cannot read them counts once it is written.
    declared = changes.get("declared_schema")
    is_readable = declared is not None and not any(_list_unreadable_reasons(tx.connection, row, declared))
    schema_change = {"schema": declared} if is_readable else {}
    tx.execute(update(channels).where(channels.c.id == row.id).values(changes | schema_change))
    kind = EventKind.CHANNEL_CHANGED if row.active else EventKind.CHANNEL_RESTORED
    tx.record_event(kind, channel.name, workflow=workflow, changed=sorted(changes))


def _find_differences(row: AnyRow, declaration: Json) -> Json:
    return {name: value for name, value in declaration.items() if row._mapping[name] != value}


def _find_refusals(connection: Connection, workflow: WorkflowSpec, registered: Mapping[str, AnyRow]) -> list[str]:
    delta_channels = {w.port for t in workflow.list_tasks() for w in t.variant.writes if w.kind is BlockKind.DELTA}
    refusals: list[str] = []
    for channel in workflow.channels:
        row = registered.get(channel.name)
        if row is None:
            continue
        _check_owner(row, "channel", workflow.name)
        changes = _find_differences(row, _build_declaration(workflow.name, channel))
        has_deltas = channel.name in delta_channels
        problems = list(dict.fromkeys(_list_impossible_changes(connection, row, changes, has_deltas)))
        if problems and _has_data(connection, row):
            refusals.append(
                f"channel {row.name!r} already holds data, so it cannot change {' and '.join(problems)}; "
                "declare another channel, or a column of another name"
            )
    return refusals


def _list_impossible_changes(connection: Connection, row: AnyRow, changes: Json, has_deltas: bool) -> Iterator[str]:
    """Changes that contradict existing blocks. A table whose task writes bases may change its schema."""
    if "role" in changes:
        yield f"from {row.role} to {changes['role']}"
    before, after = _format_updates(row.updates), _format_updates(changes.get("updates", row.updates))
    if before != after:
        yield f"its merge kind from {before} to {after}"
    declared = changes.get("declared_schema")
    if declared is not None and (row.role == ChannelRole.INPUT or has_deltas):
        yield from _list_unreadable_reasons(connection, row, declared)


def _list_unreadable_reasons(connection: Connection, row: AnyRow, new_schema: Schema) -> Iterator[str]:
    """The reasons for which existing and reserved blocks could not be read with another schema."""
    filled = (blocks.c.channel_id == row.id, blocks.c.state == BlockState.FILLED, blocks.c.rows > 0)
    schemas = {row.schema} if _has_data(connection, row) else set()
    schemas |= set(connection.execute(select(blocks.c.schema).where(*filled).distinct()).scalars())
    for schema in sorted((s for s in schemas if s is not None), key=str):
        yield from find_unreadable_changes(schema, new_schema, row.updates.key)


def _format_updates(updates: Updates) -> str:
    return f"{updates.name}({', '.join(updates.key)})" if updates.key else updates.name


def _has_data(connection: Connection, row: AnyRow) -> bool:
    query = select(blocks.c.id).where(blocks.c.channel_id == row.id, blocks.c.seq > 0)
    return connection.execute(query.where(blocks.c.state != BlockState.CANCELLED).limit(1)).first() is not None


def _apply_binding(tx: Transaction, workflow: str, binding: BoundFlow, row: AnyRow | None) -> None:
    identity, spec = binding.compute_identity(), binding_to_json(binding)
    declaration = {"workflow": workflow, "identity": identity, "spec": spec, "active": True}
    if row is None:
        statement = insert(bindings).values(declaration | {"name": binding.name}).returning(bindings.c.id)
        register_triggers(tx, tx.execute(statement).scalar_one(), workflow, binding.triggers)
    elif changes := _find_differences(row, declaration):
        tx.execute(update(bindings).where(bindings.c.id == row.id).values(changes))
        register_triggers(tx, row.id, workflow, binding.triggers)
        _reset_cursors(tx, row, spec)
    else:
        return
    tx.record_event(EventKind.BINDING_APPLIED, binding.name, workflow=workflow, identity=identity)


def _reset_cursors(tx: Transaction, row: AnyRow, spec: Json) -> None:
    """Delete the cursors of declared tables whose query changed: their state belongs to the previous query."""
    for task in find_changed_tables(map(to_task, spec["tasks"]), list_task_versions(to_binding(row))):
        of_task = (cursors.c.binding_id == row.id) & (cursors.c.task == task)
        tx.execute(delete(cursors).where(of_task))


def list_task_versions(binding: RegisteredBinding) -> dict[str, Identity]:
    """The registered identities of a bound flow's tasks."""
    return {task.name: task.identity for task in binding.tasks}


def find_changed_tables(tasks: Iterable[RegisteredTask], before: Mapping[str, Identity]) -> set[str]:
    """The declared tables among registered tasks whose queries are not those of `before`."""
    return {task.name for task in tasks if task.code == "refresh" and before.get(task.name) != task.identity}
