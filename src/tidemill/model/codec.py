"""Model values as JSON, for the catalog and for `--json`."""

from collections.abc import Callable, Mapping
from typing import Any

from tidemill.model import trigger
from tidemill.model.change import Append, Custom, Increment, Patch, Rows, Signed, Updates, Upsert
from tidemill.model.flow import BoundFlow
from tidemill.model.freshness_target import DeliveryForm, FreshnessTarget
from tidemill.model.schema import Schema
from tidemill.model.task import Task

Json = dict[str, Any]

_COLUMN_LISTS = ("key", "by", "columns")
_MERGE_KINDS: Mapping[str, Callable[..., Updates]] = {k.name: k for k in (Append, Signed, Upsert, Increment, Patch)}


def updates_to_json(updates: Updates) -> Json:
    columns = {name: list(getattr(updates, name)) for name in _COLUMN_LISTS if getattr(updates, name, ())}
    delta = {"delta": str(updates.delta)} if isinstance(updates, Custom) and updates.delta is not None else {}
    return {"kind": updates.name, **columns, **delta}


def updates_from_json(data: Mapping[str, Any]) -> Updates:
    columns = {name: tuple(data[name]) for name in _COLUMN_LISTS if name in data}
    if data["kind"] != Custom.name:
        return _MERGE_KINDS[data["kind"]](**columns)
    delta = Schema.from_ddl(data["delta"]) if "delta" in data else None
    return Custom(columns["key"], _raise_unloaded, _raise_unloaded, _raise_unloaded, delta)


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
    code, variants = type(task.variant.code).__name__, task.variants
    reads = dict.fromkeys((r.port, r.mode.value) for v in variants for r in v.reads)
    writes = dict.fromkeys((w.port, w.kind.value) for v in variants for w in v.writes)
    return {
        "name": task.name,
        "identity": task.compute_identity(),
        "code": CODE_KIND_NAMES.get(code, code.lower()),
        "reads": [{"channel": channel, "mode": mode} for channel, mode in reads],
        "writes": [{"channel": channel, "kind": kind} for channel, kind in writes],
        "variants": [v.name for v in variants],
        "has_watermark": task.watermark_output is not None,
        "location": str(task.location),
    }


def binding_to_json(binding: BoundFlow) -> Json:
    return {
        "name": binding.name,
        "identity": binding.compute_identity(),
        "tasks": [task_to_json(t) for t in binding.tasks],
        "attempts": max((t.retry.attempts for t in binding.tasks), default=1),
        "triggers": [trigger.to_json(t) for t in binding.triggers],
        "priority": binding.priority,
    }
