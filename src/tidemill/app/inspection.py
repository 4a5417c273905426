"""What the commands and the API show and change of a project in the same way."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.errors import NotFound
from tidemill.model.channel import ChannelRole
from tidemill.model.health import ServiceHealth
from tidemill.model.quota import QuotaUsage, WorkflowQuota
from tidemill.model.run import Run
from tidemill.ports.catalog import Catalog, CatalogReader, WorkflowQueries
from tidemill.ports.records import RECOVERING, RegisteredTrigger, RegisteredWorkflow, Server
from tidemill.runtime.inspect.status import (
    ChannelStatus,
    FlowStatus,
    ProjectStatus,
    hide_state_channels,
    list_reflected_versions,
    read_status,
)
from tidemill.runtime.maintenance import pins
from tidemill.runtime.runs.quotas import measure_usage
from tidemill.wire.schemas import PinDocument, RunDetailsDocument


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The status of a project, the health of its servers, and the usage of its quotas."""

    channels: tuple[ChannelStatus, ...]
    flows: tuple[FlowStatus, ...]
    active: tuple[Run, ...]
    health: ServiceHealth
    quotas: tuple[QuotaUsage, ...]


def read_service_status(catalog: CatalogReader, quotas: Mapping[str, WorkflowQuota], *, every: bool) -> ServiceStatus:
    """The status, without the state channels of declared tables unless `every`."""
    visible = read_visible_status(catalog, every=every)
    usage = measure_usage(quotas, catalog.files)
    health = judge_service(catalog.servers.list(), usage)
    return ServiceStatus(visible.channels, visible.flows, visible.active, health, usage)


def judge_service(servers: Iterable[Server], usage: Iterable[QuotaUsage]) -> ServiceHealth:
    recovering = (f"server {s.name} lost Spark and restarts it" for s in servers if s.state == RECOVERING)
    exceeded = (u.problem for u in usage if u.problem is not None)
    return ServiceHealth("; ".join((*recovering, *exceeded)) or None)


def read_visible_status(catalog: CatalogReader, *, every: bool) -> ProjectStatus:
    """The status, without the state channels of declared tables unless `every`."""
    status = read_status(catalog)
    return status if every else hide_state_channels(status)


def find_channel_status(catalog: CatalogReader, name: str) -> ChannelStatus:
    """The status of a channel, also of one that is no longer declared, which has no readers."""
    registered = catalog.channels.read(name)
    declared = (c for c in read_status(catalog).channels if c.registered.channel.name == name)
    return next(declared, ChannelStatus(registered, list_reflected_versions(registered.head.provenance), ()))


def find_target_status(catalog: CatalogReader, channel: str) -> ChannelStatus:
    status = find_channel_status(catalog, channel)
    if status.target_status is None:
        raise NotFound(f"channel {channel!r} has no freshness target; declare one with target_lag= or consistency=")
    return status


def find_trigger(catalog: CatalogReader, number: int) -> RegisteredTrigger:
    trigger = next((t for t in catalog.triggers.list() if t.id == number), None)
    if trigger is None:
        raise NotFound(f"there is no trigger {number}; list them with: tidemill triggers")
    return trigger


def find_flow_status(catalog: CatalogReader, name: str) -> FlowStatus:
    flows = read_status(catalog).flows
    flow = next((f for f in flows if f.name == name), None)
    if flow is None:
        names = ", ".join(f.name for f in flows)
        raise NotFound(f"there is no bound flow {name!r}; known are {names or 'none'}")
    return flow


def list_written_tables(catalog: CatalogReader, flow: str) -> list[str]:
    """The tables that a flow writes, without state channels."""
    states = {c.channel.name for c in catalog.channels.list() if c.channel.role is ChannelRole.STATE}
    written = (c for task in find_flow_status(catalog, flow).tasks for c, _ in task.writes)
    return [channel for channel in dict.fromkeys(written) if channel not in states]


def read_run_details(catalog: CatalogReader, run: int) -> RunDetailsDocument:
    return RunDetailsDocument.build(
        run=catalog.runs.read(run),
        reads=catalog.runs.list_reads(run),
        blocks=catalog.blocks.list_written(run),
        log=catalog.runs.read_log(run),
    )


def pin_block(catalog: Catalog, block: int, *, pinned: bool) -> PinDocument:
    """Pin a block and all its sources against garbage collection, or unpin it."""
    retained: list[int] = []
    if pinned:
        retained = sorted(pins.pin_block(catalog, block))
    else:
        catalog.blocks.unpin(block)
    return PinDocument.build(block=catalog.blocks.read(block), retained_blocks=retained)


def find_workflow(workflows: WorkflowQueries, name: str) -> RegisteredWorkflow:
    return next(workflow for workflow in workflows.list() if workflow.name == name)
