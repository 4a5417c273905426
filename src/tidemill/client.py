"""A typed client of the HTTP API.

    with tidemill.Client("http://127.0.0.1:8484", token="tdm_…") as mill:
        mill.insert("articles", "monday.csv")
        mill.request_run("digests")
        for event in mill.events():
            print(event.kind, event.subject)

Errors of the server are raised as the same exceptions (`NotFound`, `BadInput`, …) that an open project raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx

from tidemill.model.access import UserRole
from tidemill.model.renamed import raise_missing_attribute, reject_renamed_keywords
from tidemill.wire import account_schemas, explain_schemas, oneshot_schemas, schemas, server_schemas
from tidemill.wire.client_sockets import Socket, open_socket
from tidemill.wire.connection import ApiConnection, to_unreachable
from tidemill.wire.push_client import PushClient
from tidemill.wire.subscribe_client import BlockRowsDocument, subscribe_blocks
from tidemill.wire.upload_client import build_upload, encode_row

_MAX_RETRIES = 5  # reconnections of a stream without any message in between


_RENAMED = {
    "doubts": "infeasible_targets",
    "follow": "subscribe",
    "keep_user": "save_user",
    "own": "set_owners",
    "issue": "issue_token",
    "revoke": "revoke_token",
}


class Client:
    """The API of one server. It is thread-safe. `timeout`: the maximum seconds of silence."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8484",
        token: str | None = None,
        *,
        timeout: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api = ApiConnection(url, token, timeout)
        self._url, self._token, self._timeout = url, token, timeout
        self._sleep = sleep

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return raise_missing_attribute(self, name, _RENAMED)

    def close(self) -> None:
        self._api.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Channels and blocks.

    def health(self) -> schemas.HealthDocument:
        return self._api.get(schemas.HealthDocument, "healthz")

    def liveness(self) -> schemas.HealthDocument:
        return self._api.get(schemas.HealthDocument, "livez")

    def status(self, *, all: bool = False) -> schemas.StatusDocument:
        return self._api.get(schemas.StatusDocument, "status", all=all)

    def staleness(self, *, measure: str = "staleness", minutes: float = 60.0) -> schemas.StalenessDocument:
        """How stale every table was recently, and all of them together; `measure` is staleness or age."""
        return self._api.get(schemas.StalenessDocument, "staleness", measure=measure, minutes=minutes)

    def freshness_targets(self) -> list[schemas.ChannelTargetDocument]:
        return self._api.get(schemas.TargetListDocument, "freshness-targets").freshness_targets

    def freshness_target(self, channel: str) -> schemas.ChannelTargetDocument:
        return self._api.get(schemas.ChannelTargetDocument, "freshness-targets", channel)

    def channels(self, *, all: bool = False) -> list[schemas.ChannelDocument]:
        return self._api.get(schemas.ChannelListDocument, "channels", all=all).channels

    def channel(self, name: str) -> schemas.ChannelDocument:
        return self._api.get(schemas.ChannelDetailsDocument, "channels", name).channel

    def schema(self, channel: str) -> list[schemas.ColumnDocument] | None:
        return self._api.get(schemas.ChannelSchemaDocument, "channels", channel, "schema").columns

    def rows(self, channel: str, *, limit: int = 20, as_of: str | None = None) -> schemas.RowsDocument:
        return self._api.get(schemas.RowsDocument, "channels", channel, "rows", limit=limit, as_of=as_of)

    def explain(self, table: str) -> explain_schemas.ExplanationDocument:
        return self._api.get(explain_schemas.ExplanationDocument, "channels", table, "explain")

    def blocks(self, channel: str | None = None, *, limit: int = 20) -> list[schemas.BlockDocument]:
        path = ("blocks",) if channel is None else ("channels", channel, "blocks")
        return self._api.get(schemas.BlockListDocument, *path, limit=limit).blocks

    def block(self, block: int) -> schemas.BlockDocument:
        return self._api.get(schemas.BlockDocument, "blocks", block)

    def trace(self, block: int, *, depth: int = 1) -> schemas.TraceDocument:
        """The sources of a block, and the blocks derived from it, over `depth` steps in each direction."""
        return self._api.get(schemas.TraceDocument, "blocks", block, "trace", depth=depth)

    def pin_block(self, block: int) -> schemas.PinDocument:
        """Protect a block, and all blocks that it was computed from, from garbage collection."""
        return self._api.post(schemas.PinDocument, "blocks", block, "pin")

    def unpin_block(self, block: int) -> schemas.PinDocument:
        return self._api.post(schemas.PinDocument, "blocks", block, "unpin")

    def lineage(self, channel: str, tag: str) -> explain_schemas.LineageDocument:
        """The events that an event derives from, and those derived from it, by the tag of its wave."""
        return self._api.get(explain_schemas.LineageDocument, "channels", channel, "lineage", tag=tag)

    # Flows and runs.

    def flows(self) -> list[schemas.FlowDocument]:
        return self._api.get(schemas.FlowListDocument, "flows").flows

    def flow(self, name: str) -> schemas.FlowDocument:
        return self._api.get(schemas.FlowDetailsDocument, "flows", name).flow

    def explain_flow(self, name: str) -> list[explain_schemas.ExplanationDocument]:
        return self._api.get(explain_schemas.ExplanationListDocument, "flows", name, "explain").tables

    def request_run(self, flow: str, *, backfill: bool = False) -> schemas.RunDocument:
        """Request a run; a server executes it as soon as possible, a backfill on a separate track."""
        return self._api.post(schemas.RunDocument, "flows", flow, "runs", params={"backfill": backfill})

    def runs(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        subject: str | None = None,
        before: int | None = None,
        limit: int = 20,
    ) -> list[schemas.RunDocument]:
        """The newest first; the next page begins `before` the last of this one."""
        filters = {"state": state, "kind": kind, "subject": subject, "before": before, "limit": limit}
        return self._api.get(schemas.RunListDocument, "runs", **filters).runs

    def run(self, run: int) -> schemas.RunDetailsDocument:
        return self._api.get(schemas.RunDetailsDocument, "runs", run)

    def log(self, run: int) -> str | None:
        """The log of all attempts at a run; None if the caller may not act on the run."""
        return self._api.get(schemas.RunLogDocument, "runs", run, "log").log

    def kill(self, run: int) -> schemas.RunDocument:
        return self._api.post(schemas.RunDocument, "runs", run, "kill")

    def retry(self, run: int) -> schemas.RunDocument:
        return self._api.post(schemas.RunDocument, "runs", run, "retry")

    # Inserts, pushes and subscriptions.

    def insert(
        self,
        channel: str,
        data: str | Path | Iterable[Mapping[str, Any]],
        *,
        format: str | None = None,
        kind: str = "delta",
        key: str | None = None,
    ) -> schemas.InsertDocument:
        """Insert a file (a path) or rows into an input channel: all of it, or nothing.

        `kind` is "delta", a change to the content, or "base", the full content. The data is streamed. A second insert
        with the same idempotency `key` changes nothing and returns the first one's block.
        """
        body = build_upload(data, format)
        headers = body.headers | ({} if key is None else {"Idempotency-Key": key})
        request = {"content": body.content, "headers": headers, "params": {"kind": kind}, "is_work": True}
        return self._api.post(schemas.InsertDocument, "channels", channel, "blocks", **request)

    def push(
        self,
        channel: str,
        events: Iterable[Mapping[str, Any] | bytes],
        *,
        producer: str | None = None,
        first: int | None = None,
    ) -> int:
        """Push events (rows, or lines of JSON) as they come; returns the last number once all are durable.

        They are numbered from `first`, or else continue the producer's last number in the channel. An event whose
        number the channel already has is not inserted again: after a crash, push again from the last known number.
        """
        name = producer or f"client-{uuid4().hex}"
        lines = (event if isinstance(event, bytes) else encode_row(event) for event in events)
        return PushClient(lambda: self._open_socket("channels", channel, "push", producer=name), self._sleep).push(
            lines, first
        )

    def subscribe(
        self, channel: str, *, after: int | None = None, columns: Iterable[str] = (), where: Iterable[str] = ()
    ) -> Iterator[BlockRowsDocument]:
        """The rows of each new block of a channel, from now on or after a block. The iterator never ends by itself.

        `columns`: only these. `where`: only rows that satisfy all of these conditions, such as "price >= 10".
        """
        parameters = {"columns": ",".join(columns) or None, "where": list(where) or None}

        def open_subscription(at: int | None) -> AbstractContextManager[Socket]:
            return self._open_socket("channels", channel, "subscribe", after=at, **parameters)

        return subscribe_blocks(open_subscription, self._sleep, after)

    def _open_socket(self, *path: str, **params: Any) -> AbstractContextManager[Socket]:
        return open_socket(self._url, self._token, self._timeout, *path, **params)

    # Events.

    def past_events(
        self, *, after: int | None = None, run: int | None = None, limit: int = 50
    ) -> list[schemas.EventDocument]:
        return self._api.get(schemas.EventListDocument, "events", after=after, run=run, limit=limit).events

    def events(self, *, after: int | None = None) -> Iterator[schemas.EventDocument]:
        """The events from now on, or since `after`, as they happen. The iterator never ends by itself.

        A broken connection is resumed at its last event, so that no event is missed or repeated.
        """
        last, tries = after, 0
        while True:
            try:
                for message in self._api.stream_events(last, "events", "stream"):
                    last, tries = message.id if message.id is not None else last, 0
                    if message.data is not None:
                        yield schemas.EventDocument.model_validate_json(message.data)
            except httpx.TransportError as error:
                tries += 1
                if tries > _MAX_RETRIES:
                    raise to_unreachable(error) from error
                self._sleep(min(2.0**tries / 4, 10.0))

    # Workflows, triggers and servers.

    def workflows(self) -> list[server_schemas.WorkflowDocument]:
        return self._api.get(server_schemas.WorkflowListDocument, "workflows").workflows

    def register(self, document: Mapping[str, Any]) -> list[server_schemas.RegistrationStepDocument]:
        """Register a workflow of SQL tables from a document."""
        return self._api.post(server_schemas.RegistrationStepsDocument, "workflows", json=document).steps

    def remove(self, workflow: str) -> None:
        """Unregister a workflow that was registered from a document; its data are retained."""
        self._api.delete("workflows", workflow)

    def plan(self) -> list[server_schemas.RegistrationStepDocument]:
        return self._api.get(server_schemas.RegistrationPlanDocument, "plan").steps

    def infeasible_targets(self) -> list[str]:
        """Freshness targets that are infeasible according to past runs."""
        return self._api.get(server_schemas.RegistrationPlanDocument, "plan").infeasible_targets

    def statistics(self) -> list[server_schemas.TaskStatisticsDocument]:
        return self._api.get(server_schemas.StatisticsDocument, "statistics").tasks

    def dispatching(self) -> server_schemas.DispatchConfigDocument:
        return self._api.get(server_schemas.DispatchConfigDocument, "dispatching")

    @reject_renamed_keywords(chop="catch_up_limit")
    def dispatch(
        self,
        policy: str | None = None,
        placement: str | None = None,
        inheritance: str | None = None,
        tracks: int | None = None,
        backfill_tracks: int | None = None,
        catch_up_limit: float | None = None,
    ) -> server_schemas.DispatchConfigDocument:
        """Change how all servers order runs; omitted values go back to each server's settings."""
        overrides = server_schemas.DispatchOverrideDocument(
            policy=policy,
            placement=placement,
            inheritance=inheritance,
            tracks=tracks,
            backfill_tracks=backfill_tracks,
            catch_up_limit=catch_up_limit,
        )
        return self._api.request(
            "PUT", server_schemas.DispatchConfigDocument, "dispatching", json=overrides.model_dump()
        )

    def apply(self) -> list[server_schemas.RegistrationStepDocument]:
        return self._api.post(server_schemas.RegistrationStepsDocument, "apply").steps

    def pause(self, workflow: str) -> server_schemas.WorkflowDocument:
        return self._api.post(server_schemas.WorkflowDocument, "workflows", workflow, "pause")

    def resume(self, workflow: str) -> server_schemas.WorkflowDocument:
        return self._api.post(server_schemas.WorkflowDocument, "workflows", workflow, "resume")

    def prioritise(self, workflow: str, priority: int) -> server_schemas.WorkflowDocument:
        body = {"priority": priority}
        return self._api.request("PUT", server_schemas.WorkflowDocument, "workflows", workflow, "priority", json=body)

    def trigger(self, number: int) -> server_schemas.TriggerDocument:
        return self._api.get(server_schemas.TriggerDocument, "triggers", number)

    def triggers(self, flow: str | None = None) -> list[server_schemas.TriggerDocument]:
        return self._api.get(server_schemas.TriggerListDocument, "triggers", flow=flow).triggers

    def firings(self, flow: str | None = None, *, limit: int = 20) -> list[server_schemas.FiringDocument]:
        return self._api.get(server_schemas.FiringListDocument, "firings", flow=flow, limit=limit).firings

    def servers(self) -> list[server_schemas.ServerDocument]:
        return self._api.get(server_schemas.ServerListDocument, "servers").servers

    # Maintenance. These methods return when the work is done.

    def compact(self, channel: str) -> schemas.BlockDocument | None:
        """Merge a channel's deltas into a base; None if there is nothing to merge."""
        compacted = server_schemas.CompactedChannelDocument
        return self._api.post(compacted, "channels", channel, "compact", is_work=True).block

    def collect(
        self, *, retain: str | None = None, grace: str | None = None, scan: bool = False
    ) -> server_schemas.CollectionDocument:
        """Garbage-collect; `retain` ('7 days') is the period that stays readable, `grace` the minimum age of marks."""
        options = {"retain": retain, "grace": grace, "scan": scan}
        return self._api.post(server_schemas.CollectionDocument, "maintenance", "collect", params=options, is_work=True)

    def maintenance(self) -> server_schemas.MaintenanceDocument:
        return self._api.get(server_schemas.MaintenanceDocument, "maintenance")

    def pause_maintenance(self) -> server_schemas.MaintenanceDocument:
        return self._api.post(server_schemas.MaintenanceDocument, "maintenance", "pause")

    def resume_maintenance(self) -> server_schemas.MaintenanceDocument:
        return self._api.post(server_schemas.MaintenanceDocument, "maintenance", "resume")

    def run_maintenance(self) -> server_schemas.MaintenanceResultDocument:
        """Do the maintenance that is due on all channels now, also while it is paused."""
        return self._api.post(server_schemas.MaintenanceResultDocument, "maintenance", "run", is_work=True)

    # One-shot workflows.

    def submit(self, workflow: Mapping[str, Any]) -> oneshot_schemas.SubmissionDocument:
        """Submit a one-shot workflow; servers run the actions that have no earlier result."""
        return self._api.post(oneshot_schemas.SubmissionDocument, "submissions", json=workflow)

    def submissions(self, *, before: int | None = None, limit: int = 20) -> list[oneshot_schemas.SubmissionDocument]:
        """The newest first; the next page begins `before` the last of this one."""
        return self._api.get(
            oneshot_schemas.SubmissionListDocument, "submissions", before=before, limit=limit
        ).submissions

    def submission(self, number: int) -> oneshot_schemas.SubmissionDocument:
        return self._api.get(oneshot_schemas.SubmissionDocument, "submissions", number)

    def explain_action(self, submission: int, action: str | int) -> oneshot_schemas.ActionDocument:
        """Why an action was or was not reused."""
        return self._api.get(oneshot_schemas.ActionDocument, "submissions", submission, "actions", action)

    def history(
        self,
        *,
        since: str = "7 days",
        until: str = "0s",
        by: str = "day",
        per: str | None = None,
        user: str | None = None,
        workflow: str | None = None,
        task: str | None = None,
    ) -> list[oneshot_schemas.UsageFiguresDocument]:
        """Submissions and refreshes over time, and the savings by reuse.

        `since` and `until` are times, or durations before now; `by` is minute, hour, day, week or month; `per` is user,
        workflow or task, and splits the figures by it.
        """
        period = {"since": since, "until": until, "by": by, "per": per}
        filters = {"user": user, "workflow": workflow, "task": task}
        return self._api.get(oneshot_schemas.UsageHistoryDocument, "history", **period, **filters).figures

    def storage(self) -> oneshot_schemas.StorageDocument:
        return self._api.get(oneshot_schemas.StorageDocument, "storage")

    def pin(self, dataset: str) -> oneshot_schemas.DatasetDocument:
        """Protect a dataset from eviction, by a prefix of its identity."""
        return self._api.post(oneshot_schemas.DatasetDocument, "datasets", dataset, "pin")

    def unpin(self, dataset: str) -> oneshot_schemas.DatasetDocument:
        return self._api.post(oneshot_schemas.DatasetDocument, "datasets", dataset, "unpin")

    # Users, tokens and owners.

    def me(self) -> account_schemas.CallerDocument:
        return self._api.get(account_schemas.CallerDocument, "me")

    def users(self) -> list[account_schemas.UserDocument]:
        return self._api.get(account_schemas.UserListDocument, "users").users

    def save_user(self, name: str, role: UserRole | str) -> account_schemas.UserDocument:
        return self._api.request("PUT", account_schemas.UserDocument, "users", name, json={"role": str(role)})

    def remove_user(self, name: str) -> None:
        self._api.delete("users", name)

    def tokens(self) -> list[account_schemas.TokenDocument]:
        return self._api.get(account_schemas.TokenListDocument, "tokens").tokens

    def issue_token(
        self, user: str, *, label: str = "", seconds: float | None = None
    ) -> account_schemas.IssuedTokenDocument:
        """A new token; its secret is only shown in this response."""
        body = {"label": label, "seconds": seconds}
        return self._api.post(account_schemas.IssuedTokenDocument, "users", user, "tokens", json=body)

    def revoke_token(self, token: str) -> account_schemas.TokenDocument:
        return self._api.request("DELETE", account_schemas.TokenDocument, "tokens", token)

    def owners(self, workflow: str) -> list[str]:
        return self._api.get(account_schemas.OwnerListDocument, "workflows", workflow, "owners").owners

    def set_owners(self, workflow: str, owners: Iterable[str]) -> list[str]:
        body = {"owners": list(owners)}
        return self._api.request(
            "PUT", account_schemas.OwnerListDocument, "workflows", workflow, "owners", json=body
        ).owners

    def audit(self, *, before: int | None = None, limit: int = 100) -> list[account_schemas.AuditEntryDocument]:
        return self._api.get(account_schemas.AuditLogDocument, "audit", before=before, limit=limit).entries
