"""Settings: immutable values, read from `tidemill.toml` and the environment and validated on load."""

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from tidemill.app.secret_settings import describe_value
from tidemill.errors import ConfigError
from tidemill.model.network import is_loopback
from tidemill.model.notice import NoticeKind
from tidemill.model.renamed import find_renamed_key
from tidemill.model.units import parse_duration, parse_size

SETTINGS_FILE = "tidemill.toml"
STATE_DIRECTORY = ".tidemill"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _check(parse: Callable[[str], float]) -> AfterValidator:
    """A validator of texts that `parse` accepts; they stay as they are."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


_Size = Annotated[str, _check(parse_size)]
_Duration = Annotated[str, _check(parse_duration)]


def _check_network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError as error:
        raise ValueError("expected an address or a network, such as 10.0.0.1 or 10.0.0.0/8") from error
    return text


_Network = Annotated[str, AfterValidator(_check_network)]


class CatalogSettings(_Section):
    # or postgresql://user:password@host/database
    url: str = Field(default=f"sqlite:///{STATE_DIRECTORY}/catalog.db", repr=False)


class StorageSettings(_Section):
    # a directory, or any URL that fsspec supports, such as s3://bucket/prefix
    url: str = Field(default=f"{STATE_DIRECTORY}/blocks", repr=False)
    staged: bool | None = None  # remote URLs: use a local cache (default), or let Spark access them directly
    cache: str = f"{STATE_DIRECTORY}/cache"
    options: dict[str, Any] = Field(default_factory=dict, repr=False)  # passed to fsspec
    budget: _Size | None = None  # for datasets of one-shot workflows, such as "50 GB"; none: unlimited
    budgets: dict[str, _Size] = Field(default_factory=dict)  # the same for single workflows, by their names
    channel_budget: _Size | None = None  # for the blocks of all channels; none: unlimited
    eviction_threshold: float = Field(default=0.9, gt=0, le=1)  # share of a budget above which space is freed


class QuotaSettings(_Section):
    """What one workflow may use."""

    tracks: int | None = Field(default=None, ge=1)  # runs that one server executes at the same time; none: unlimited
    storage: _Size | None = None  # for the blocks of its channels, such as "10 GB"; none: unlimited


class SparkSettings(_Section):
    master: str = "local[*]"
    settings: dict[str, str] = Field(default_factory=dict, repr=False)


class EngineSettings(_Section):
    """Where refreshes of declared tables are computed: on the driver or by Spark's executors."""

    local: Literal["auto", "off"] = "auto"  # auto: on the driver where that is cheaper; off: everything on Spark
    driver_memory: _Size | None = None  # for rows on the driver, such as "2 GB"; default: a quarter of the memory
    relation_rows: int = Field(default=8_000, ge=0)  # rows that are passed to Spark in a plan, not in a file
    single_task_rows: int = Field(default=100_000, ge=1)  # rows up to which one task is as quick as several
    content_rows: int = Field(default=100_000, ge=0)  # of a content from which its untouched rows are not grouped
    broadcast_rows: int = Field(default=400_000, ge=0)  # rows of a change whose keys are sent to every executor


class RunSettings(_Section):
    lease: float = Field(default=30.0, gt=0)  # seconds without renewal after which a run may be reclaimed
    reservation_timeout: float = Field(default=60.0, ge=0)  # seconds to wait for another run's reservation


class WorkerSettings(_Section):
    """The limits of each worker process of a server, with Spark and all programs that it starts."""

    memory: _Size | None = None  # default: the workers' part of four fifths of the memory, at least 4 GB
    disk: _Size | None = None  # temporary files, and any one file; default: half of the free space, at most 100 GB
    processes: int = Field(default=300, ge=10)
    nice: int = Field(default=10, ge=0, le=19)  # lowers their priority for the processor below that of the server
    time_limit: float | None = Field(default=None, gt=0)  # seconds of one run; a task's own limit may be smaller


class ServerSettings(_Section):
    """Settings of `tidemill up` and `tidemill work`."""

    tracks: int = Field(default=2, ge=1, le=64)  # runs that one server executes at the same time
    backfill_tracks: int = Field(default=1, ge=1, le=64)  # additional tracks for backfills
    policy: str = "max-benefit"  # the order of due runs (docs/scheduling.md)
    placement: str = "proportional"  # the assignment of runs to tracks
    inheritance: str = "max"  # how a table inherits the priorities of tables derived from it
    catch_up_limit: float = Field(default=0.0, ge=0, allow_inf_nan=False)  # periods of data per run; 0: no limit
    batch_limit: int = Field(default=0, ge=0)  # batches of data per run; 0: no limit
    patience: float = Field(default=10.0, ge=0, allow_inf_nan=False)  # periods until a ready run goes first; 0: never
    poll_interval: float = Field(default=1.0, gt=0)  # seconds between two polls, if no event wakes the server
    leader_timeout: float = Field(default=5.0, gt=0)  # seconds without a heartbeat after which another server leads
    maintenance_interval: float = Field(default=60.0, gt=0)  # seconds between two maintenance rounds


class WebhookSettings(_Section):
    """Notices as signed JSON."""

    kind: Literal["webhook"]
    url: str = Field(repr=False)  # it may contain a token
    secret: str = Field(repr=False)
    events: tuple[NoticeKind, ...] = tuple(NoticeKind)


class _PostboxSettings(_Section):
    """A mail server, and the addresses of a message."""

    host: str
    port: int = 587
    starttls: bool = True
    user: str | None = None
    password: str | None = Field(default=None, repr=False)
    sender: str
    to: tuple[str, ...]


class MailSettings(_PostboxSettings):
    """Notices by e-mail."""

    kind: Literal["mail"]
    events: tuple[NoticeKind, ...] = tuple(NoticeKind)


ReceiverSettings = Annotated[WebhookSettings | MailSettings, Field(discriminator="kind")]


class ApiSettings(_Section):
    """The HTTP API of `tidemill up`."""

    host: str = "127.0.0.1"
    port: int = Field(default=8484, ge=0, le=65535)
    allowed_hosts: tuple[str, ...] = ()  # host names of the server for clients, besides those of loopback
    authentication: bool | None = None  # callers need a token; none: if other machines can reach the API
    max_failed_logins: int = Field(default=10, ge=1)  # invalid tokens from one address per minute
    trusted_proxies: tuple[_Network, ...] = ()  # their X-Forwarded-For and X-Forwarded-Proto are believed
    max_connections: int = Field(default=1000, ge=1)  # beyond, the one that waits longest without a request is closed
    header_timeout: float = Field(default=10.0, gt=0)  # seconds within which a connection must send its headers
    max_upload_bytes: int = Field(default=1024**3, ge=1)  # bytes of one insert, compressed and uncompressed

    @property
    def requires_token(self) -> bool:
        """Whether callers need a token. Without it, every user of this machine is an admin."""
        if self.authentication is not None:
            return self.authentication
        return bool(self.trusted_proxies) or not is_loopback(self.host)


class PushSettings(_Section):
    """Batching of pushed messages: a block is written as soon as `max_wait`, `max_rows` or `max_bytes` is reached."""

    max_wait: float = Field(default=0.5, ge=0)  # that the first event of a block waits for others
    max_rows: int = Field(default=100_000, ge=1)
    max_bytes: int = Field(default=8 * 1024**2, ge=1)
    max_message_bytes: int = Field(default=1024**2, ge=1)  # greatest size of one message in bytes
    max_unacknowledged_bytes: int = Field(default=512 * 1024, ge=1)  # of one connection; then it is not read from
    producer_retention: _Duration | None = "90 days"  # a producer without messages for this time expires; none: never


class TcpSettings(_Section):
    """Newline-delimited JSON from an address that a server connects to."""

    kind: Literal["tcp"]
    channel: str
    host: str
    port: int = Field(ge=1, le=65535)


class FolderSettings(_Section):
    """Files that appear in a folder."""

    kind: Literal["folder"]
    channel: str
    path: str
    pattern: str = "*"
    format: str | None = None  # csv, jsonl or parquet; default: by the file's name
    quiet_period: float = Field(default=2.0, ge=0)  # seconds without a change after which a file is complete


class WebSubSettings(_Section):
    """Content published on a WebSub topic, sent by its hub."""

    kind: Literal["websub"]
    channel: str
    topic: str
    callback: str  # the address of this server for hubs, such as https://mill.example
    secret: str = Field(repr=False, min_length=16, max_length=199)
    hub: str | None = None  # default: discovered from the topic
    lease: int = Field(default=86_400, ge=10)  # requested seconds


SourceSettings = Annotated[TcpSettings | FolderSettings | WebSubSettings, Field(discriminator="kind")]


class _DeliverySettings(_Section):
    channel: str
    columns: tuple[str, ...] = ()  # delivered columns; default: all
    where: tuple[str, ...] = ()  # conditions that delivered rows must meet, such as "price >= 10"


class WebhookDeliverySettings(_DeliverySettings):
    """The rows of new blocks as signed JSON lines."""

    kind: Literal["webhook"]
    url: str = Field(repr=False)  # it may contain a token
    secret: str = Field(repr=False)


class MailDeliverySettings(_DeliverySettings, _PostboxSettings):
    """The rows of new blocks by e-mail."""

    kind: Literal["mail"]


class ChannelDeliverySettings(_DeliverySettings):
    """The rows of new blocks as inserts into an input channel."""

    kind: Literal["channel"]
    to: str  # an input channel


DeliverySettings = Annotated[
    WebhookDeliverySettings | MailDeliverySettings | ChannelDeliverySettings, Field(discriminator="kind")
]


class MaintenanceSettings(_Section):
    """Compaction, garbage collection and retention, which bound the growth of storage and catalog."""

    automatic: bool = True  # maintain the channels of a flow after its runs, and all channels periodically
    run_history: int = Field(default=100, ge=1)  # runs kept per channel and bound flow
    snapshots: int = Field(default=50, ge=0)  # number of the newest positions of a channel that stay readable
    retention: _Duration | None = None  # and the positions of this period, such as "7 days"
    small_file_bytes: int = Field(default=32 * 1024 * 1024, ge=0)  # bytes; larger files are shared when compacting
    audit_retention: _Duration = "90 days"  # retention of the audit log
    grace_period: _Duration = "2 minutes"  # time before files of garbage-collected blocks are removed from the store
    orphan_retention: _Duration = "1 day"  # time before files of attempts that ended without a result are removed
    history_retention: _Duration = "90 days"  # retention of submissions and events, unless they are needed longer


class PlannerSettings(_Section):
    """Strategies for meeting freshness targets. Both should stay on; switch one off only for comparisons."""

    asynchronous: bool = True  # refresh only the channels that a freshness target needs
    incremental: bool = True  # refresh incrementally, where that is cheaper than a full recomputation
    strict: bool = False  # in a plan for a freshness target, no task reads inputs that were never current together


class Settings(_Section):
    """All settings. Relative paths are relative to the project's directory."""

    workflows: tuple[str, ...] = ("workflow.py",)
    catalog: CatalogSettings = CatalogSettings()
    storage: StorageSettings = StorageSettings()
    spark: SparkSettings = SparkSettings()
    engine: EngineSettings = EngineSettings()
    runs: RunSettings = RunSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    planner: PlannerSettings = PlannerSettings()
    server: ServerSettings = ServerSettings()
    workers: WorkerSettings = WorkerSettings()
    api: ApiSettings = ApiSettings()
    push: PushSettings = PushSettings()
    quotas: dict[str, QuotaSettings] = Field(default_factory=dict)  # by the workflow's name
    sources: dict[str, SourceSettings] = Field(default_factory=dict)  # by the source's name
    deliver: dict[str, DeliverySettings] = Field(default_factory=dict)  # by the receiver's name
    notify: dict[str, ReceiverSettings] = Field(default_factory=dict)  # by the receiver's name


@dataclass(frozen=True, slots=True)
class ChannelSetting:
    """A setting that names a channel."""

    key: str  # "sources.feed.channel"
    channel: str
    is_input: bool  # it must be an input channel


def list_channel_settings(settings: Settings) -> Iterator[ChannelSetting]:
    for name, source in settings.sources.items():
        yield ChannelSetting(f"sources.{name}.channel", source.channel, is_input=True)
    for name, delivery in settings.deliver.items():
        yield ChannelSetting(f"deliver.{name}.channel", delivery.channel, is_input=False)
        if isinstance(delivery, ChannelDeliverySettings):
            yield ChannelSetting(f"deliver.{name}.to", delivery.to, is_input=True)


_ENVIRONMENT = {
    "TIDEMILL_CATALOG_URL": ("catalog", "url"),
    "TIDEMILL_STORAGE_URL": ("storage", "url"),
    "TIDEMILL_SPARK_MASTER": ("spark", "master"),
    "TIDEMILL_ENGINE_LOCAL": ("engine", "local"),
}


_RENAMED = {
    "runs.busy": "runs.reservation_timeout",
    "server.chop": "server.catch_up_limit",
    "server.tick": "server.poll_interval",
    "server.lead": "server.leader_timeout",
    "server.chores": "server.maintenance_interval",
    "api.names": "api.allowed_hosts",
    "api.access": "api.authentication",
    "api.failures": "api.max_failed_logins",
    "api.upload": "api.max_upload_bytes",
    "push.seconds": "push.max_wait",
    "push.rows": "push.max_rows",
    "push.bytes": "push.max_bytes",
    "push.message": "push.max_message_bytes",
    "push.window": "push.max_unacknowledged_bytes",
    "push.forget": "push.producer_retention",
    "sources.*.settle": "quiet_period",
    "storage.threshold": "storage.eviction_threshold",
    **{
        f"{section}.{old}": f"maintenance.{new}"
        for section in ("upkeep", "maintenance")
        for old, new in {
            "history": "run_history",
            "points": "snapshots",
            "keep": "retention",
            "small_file": "small_file_bytes",
            "audit": "audit_retention",
            "grace": "grace_period",
            "orphans": "orphan_retention",
            "past": "history_retention",
        }.items()
    },
    "upkeep": "maintenance",
}
"""Keys of earlier releases."""


def find_project(start: Path) -> Path:
    """The nearest directory, from `start` upwards, that holds a `tidemill.toml`."""
    for directory in (start.resolve(), *start.resolve().parents):
        if (directory / SETTINGS_FILE).is_file():
            return directory
    raise ConfigError(f"no {SETTINGS_FILE} in {start.resolve()} or above it; create a project with: tidemill init")


def load_settings(project: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """The project's settings; the environment overrides the file."""
    try:
        with (project / SETTINGS_FILE).open("rb") as file:
            data = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{project / SETTINGS_FILE} is not TOML: {error}") from error
    except OSError as error:
        raise ConfigError(f"{project / SETTINGS_FILE} cannot be read: {error.strerror}") from error
    if (problem := find_renamed_key(data, _RENAMED)) is not None:
        raise ConfigError(f"{project / SETTINGS_FILE}: {problem}; rename the key in the file")
    for name, (section, key) in _ENVIRONMENT.items():
        if name in environment:
            data.setdefault(section, {})[key] = environment[name]
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        found = describe_value(first["input"], first["loc"], first["type"])
        raise ConfigError(f"{project / SETTINGS_FILE}: {location}: {first['msg']}{found}") from None


def read_fields(kind: type[Any], *sections: BaseModel) -> dict[str, Any]:
    """The settings that have the name of a field of a dataclass."""
    return {f.name: getattr(s, f.name) for f in fields(kind) for s in sections if f.name in type(s).model_fields}


def resolve_sqlite_url(url: str, project: Path) -> str:
    """A SQLite URL with its path taken relative to the project.

    >>> resolve_sqlite_url("sqlite:///a/b.db", Path("/p"))
    'sqlite:////p/a/b.db'
    """
    prefix = "sqlite:///"
    if not url.startswith(prefix):
        return url
    return f"{prefix}{project / url.removeprefix(prefix)}"


def resolve_storage_url(url: str, project: Path) -> str:
    """A storage URL; a plain path is taken relative to the project."""
    return url if "://" in url else str(project / url)
