"""Model values as JSON, for the catalog and for `--json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidemill.model import trigger
from tidemill.model.block import BlockKind
from tidemill.model.change import Append, Custom, Increment, Patch, Rows, Signed, Updates, Upsert
from tidemill.model.flow import BoundFlow
from tidemill.model.freshness_target import DeliveryForm, FreshnessTarget
from tidemill.model.schema import Schema
from tidemill.model.task import ReadMode, Task

Json = dict[str, Any]


def updates_to_json(updates: Updates) -> Json:
    data: Json = {"kind": updates.name}
    if updates.key:
        data["key"] = list(updates.key)
    if isinstance(updates, Patch):
        data["by"] = list(updates.by)
    if isinstance(updates, Increment | Patch):
        data["columns"] = list(updates.columns)
    if isinstance(updates, Custom) and updates.delta is not None:
        data["delta"] = str(updates.delta)
    return data


def updates_from_json(data: Mapping[str, Any]) -> Updates:
    key = tuple(data.get("key", ()))
    match data["kind"]:
        case "append":
            return Append()
        case "signed":
            return Signed()
        case "upsert":
            return Upsert(key)
        case "increment":
            return Increment(key, tuple(data["columns"]))
        case "patch":
            return Patch(key, tuple(data["by"]), tuple(data["columns"]))
        case "custom":
            delta = Schema.from_ddl(data["delta"]) if "delta" in data else None
            return Custom(key, _raise_unloaded, _raise_unloaded, _raise_unloaded, delta)
        case other:
            raise ValueError(f"unknown merge kind {other!r}")


def _raise_unloaded(_first: Rows, _second: Rows) -> Rows:
    """Placeholder for a user's function, which is in the workflow file and not in the catalog."""
    raise LookupError("a custom merge needs its workflow file; none was loaded")


CODE_KIND_NAMES = {
    "KeyedTaskSpec": "keyed",
    "OperatorTaskSpec": "operator",
    "WindowTaskSpec": "window",
    "WaveStartSpec": "wave start",
    "WaveEndSpec": "wave end",
    "WaveBarrierSpec": "barrier",
}
"""Names of stateful tasks in `status`, `plan` and on the page; other code is shown by its class's name."""


def target_to_json(target: FreshnessTarget) -> Json:
    data: Json = {"lag": dict(sorted(target.lag.items()))} if target.lag else {}
    if target.consistency is not None:
        data["consistency"] = target.consistency
    return data | ({"accepts": [str(form) for form in target.accepts]} if target.accepts else {})


def target_from_json(data: Mapping[str, Any]) -> FreshnessTarget:
    accepts = tuple(DeliveryForm(form) for form in data.get("accepts", ()))
    return FreshnessTarget(dict(data.get("lag", {})), data.get("consistency"), accepts)


def task_to_json(task: Task) -> Json:
    """A task's signature, as `status`, `plan` and the page show it."""
    return {
        "name": task.name,
        "identity": task.compute_identity(),
        "code": CODE_KIND_NAMES.get(type(task.variant.code).__name__, type(task.variant.code).__name__.lower()),
        "reads": _dedupe_items(
            {"channel": r.port, "mode": ReadMode(r.mode).value} for v in task.variants for r in v.reads
        ),
        "writes": _dedupe_items(
            {"channel": w.port, "kind": BlockKind(w.kind).value} for v in task.variants for w in v.writes
        ),
        "variants": [v.name for v in task.variants],
        "has_watermark": task.watermark_output is not None,
        "location": str(task.location),
    }


def _dedupe_items(items: Iterable[Json]) -> list[Json]:
    unique: list[Json] = []
    for item in items:
        if item not in unique:
            unique.append(item)
    return unique


def binding_to_json(binding: BoundFlow) -> Json:
    return {
        "name": binding.name,
        "identity": binding.compute_identity(),
        "tasks": [task_to_json(t) for t in binding.tasks],
        "attempts": max((t.retry.attempts for t in binding.tasks), default=1),
        "triggers": [trigger.to_json(t) for t in binding.triggers],
        "priority": binding.priority,
    }
