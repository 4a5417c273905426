"""Documents about workflows, triggers, servers and maintenance."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from tidemill.wire.document import RequestDocument, ResponseDocument, Source, Timestamp, TriggerField
from tidemill.wire.schemas import BlockDocument, RunDocument

_MAX_PRIORITY = 2**31 - 1


class RegistrationStepDocument(ResponseDocument):
    action: str
    what: Annotated[str, Source("noun")]
    name: str
    detail: str


class RegistrationStepsDocument(ResponseDocument):
    steps: list[RegistrationStepDocument]


class TaskStatisticsDocument(ResponseDocument):
    """Recent statistics of one task; rates are rows per second."""

    flow: str
    task: str
    priority: float
    runs: int
    seconds: float | None
    selectivity: float | None
    input_rate: float | None
    output_rate: float | None
    queue: int


class StatisticsDocument(ResponseDocument):
    tasks: list[TaskStatisticsDocument]


class DispatchOverrideDocument(RequestDocument):
    """Overrides of the dispatch settings of all servers."""

    renamed: ClassVar[Mapping[str, str]] = {"chop": "catch_up_limit"}

    policy: str | None = Field(default=None, max_length=100)
    placement: str | None = Field(default=None, max_length=100)
    inheritance: str | None = Field(default=None, max_length=100)
    tracks: int | None = Field(default=None, ge=1, le=64)
    backfill_tracks: int | None = Field(default=None, ge=1, le=64)
    catch_up_limit: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class DispatchConfigDocument(ResponseDocument):
    policy: str
    placement: str
    inheritance: str
    tracks: int
    backfill_tracks: int
    catch_up_limit: float
    overrides: dict[str, Any]


class RegistrationPlanDocument(RegistrationStepsDocument):
    """The changes that `apply` would make, and freshness targets that cannot be met, judged by past runs."""

    infeasible_targets: list[str]


class WorkflowDocument(ResponseDocument):
    name: str
    paused: bool
    priority: int
    changed: Annotated[Timestamp, Source("applied")]


class WorkflowListDocument(ResponseDocument):
    workflows: list[WorkflowDocument]


class PriorityDocument(RequestDocument):
    """The priority of a workflow: runs of workflows with a larger one go first."""

    priority: int = Field(ge=-_MAX_PRIORITY, le=_MAX_PRIORITY)


class TriggerDocument(ResponseDocument):
    id: int
    flow: str
    trigger: Annotated[int, Source("root")]
    condition: Annotated[TriggerField, Source("leaf")]
    due: Timestamp | None
    waiting_since: Annotated[Timestamp | None, Source("since")]
    rows: int
    bytes: int
    missed: int
    fired: Timestamp | None
    paused: bool


class TriggerListDocument(ResponseDocument):
    triggers: list[TriggerDocument]


class FiringDocument(ResponseDocument):
    id: int
    at: Timestamp
    flow: str
    trigger: TriggerField
    missed: int
    run: int


class FiringListDocument(ResponseDocument):
    firings: list[FiringDocument]


class ServerDocument(ResponseDocument):
    name: str
    role: str
    leader: bool
    state: str
    tracks: int
    started: Timestamp
    last_heartbeat: Timestamp


class ServerListDocument(ResponseDocument):
    servers: list[ServerDocument]


class CompactedChannelDocument(ResponseDocument):
    channel: str
    block: Annotated[BlockDocument | None, Field(description="Its new base; null: there was nothing to merge.")]


class CompactionListDocument(ResponseDocument):
    compacted: list[CompactedChannelDocument]


class DueCompactionDocument(ResponseDocument):
    channel: str
    compaction: str | None  # whether it is due, with the reason


class MaintenanceDocument(ResponseDocument):
    automatic: bool
    paused: bool
    active: list[RunDocument]
    channels: list[DueCompactionDocument]


class StoreScanDocument(ResponseDocument):
    """Counts of a listing of the whole store."""

    attempts: int
    marked: int
    unknown: int


class GarbageCountsDocument(ResponseDocument):
    """Collected blocks, removed files, runs whose process had died, and files to be removed later."""

    blocks: int
    files: int
    reclaimed: int
    marked: int


class CollectionDocument(GarbageCountsDocument):
    scan: StoreScanDocument | None


class ExpiryCountsDocument(ResponseDocument):
    runs: int
    blocks: int


class MaintenanceResultDocument(ResponseDocument):
    """The maintenance that was due; a problem prevented a compaction or a removal."""

    minor_compactions: list[BlockDocument]
    major_compactions: list[BlockDocument]
    collected: GarbageCountsDocument
    expired: ExpiryCountsDocument
    problems: list[str]
