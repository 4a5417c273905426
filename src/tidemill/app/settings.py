"""Settings: inert values, read from `tidemill.toml` and the environment, checked at the edge."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from tidemill.errors import ConfigError
from tidemill.model.notice import NoticeKind
from tidemill.model.units import parse_duration, parse_size

FILE = "tidemill.toml"
HOME = ".tidemill"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CatalogSettings(_Section):
    url: str = f"sqlite:///{HOME}/catalog.db"  # or postgresql://user:password@host/database


class StorageSettings(_Section):
    url: str = f"{HOME}/blocks"  # a directory, or any URL that fsspec knows, such as s3://bucket/prefix
    staged: bool | None = None  # remote URLs: go through a local cache (default), or let Spark reach them itself
    cache: str = f"{HOME}/cache"
    options: dict[str, Any] = Field(default_factory=dict)  # passed to fsspec
    budget: str | None = None  # that datasets of one-shot workflows may hold, such as "50 GB"; none: all there is
    budgets: dict[str, str] = Field(default_factory=dict)  # the same for single workflows, by their names
    threshold: float = Field(default=0.9, gt=0, le=1)  # share of a budget from which on some are evicted

    @field_validator("budget")
    @classmethod
    def _check_size(cls, budget: str | None) -> str | None:
        if budget is not None:
            parse_size(budget)
        return budget

    @field_validator("budgets")
    @classmethod
    def _check_sizes(cls, budgets: dict[str, str]) -> dict[str, str]:
        for budget in budgets.values():
            parse_size(budget)
        return budgets


class SparkSettings(_Section):
    master: str = "local[*]"
    settings: dict[str, str] = Field(default_factory=dict)


class RunSettings(_Section):
    lease: float = Field(default=30.0, gt=0)  # seconds after which a silent run may be taken over
    busy: float = Field(default=60.0, ge=0)  # seconds to wait for another run's slot


class ServerSettings(_Section):
    """What `tidemill up` and `tidemill work` do."""

    tracks: int = Field(default=2, ge=1, le=64)  # runs that one server executes at the same time
    backfill_tracks: int = Field(default=1, ge=1, le=64)  # backfills that it executes besides
    policy: str = "max-benefit"  # which of those that are due go first (docs/dispatching.md)
    placement: str = "proportional"  # and on which tracks
    inheritance: str = "max"  # what a table counts for because of those made of it
    chop: float = Field(default=0.0, ge=0, allow_inf_nan=False)  # periods of data a run loads at most; 0: all that wait
    tick: float = Field(default=1.0, gt=0)  # seconds after which it looks again, if nothing wakes it
    lead: float = Field(default=5.0, gt=0)  # seconds of silence after which another server leads
    chores: float = Field(default=60.0, gt=0)  # seconds between two times of keeping house


class WebhookSettings(_Section):
    """Notices as signed JSON."""

    kind: Literal["webhook"]
    url: str
    secret: str = Field(repr=False)
    events: tuple[NoticeKind, ...] = tuple(NoticeKind)


class MailSettings(_Section):
    """Notices by e-mail."""

    kind: Literal["mail"]
    host: str
    port: int = 587
    starttls: bool = True
    user: str | None = None
    password: str | None = Field(default=None, repr=False)
    sender: str
    to: tuple[str, ...]
    events: tuple[NoticeKind, ...] = tuple(NoticeKind)


ReceiverSettings = Annotated[WebhookSettings | MailSettings, Field(discriminator="kind")]


class ApiSettings(_Section):
    """The HTTP API of `tidemill up`."""

    host: str = "127.0.0.1"  # any other only with access control
    port: int = Field(default=8484, ge=0, le=65535)
    names: tuple[str, ...] = ()  # by which clients may call the server, besides those of loopback
    access: bool = False  # callers must show a token; else everyone on this machine is an admin
    failures: int = Field(default=10, ge=1)  # wrong tokens from one address within a minute; then it has to wait
    upload: int = Field(default=1024**3, ge=1)  # bytes of one insert, as sent and as unpacked


class PushSettings(_Section):
    """How what is pushed becomes blocks: as soon as any of these is reached, one is cut."""

    seconds: float = Field(default=0.5, ge=0)  # that the first event of a block waits for others
    rows: int = Field(default=100_000, ge=1)
    bytes: int = Field(default=8 * 1024**2, ge=1)
    message: int = Field(default=1024**2, ge=1)  # bytes of one message at most
    window: int = Field(default=512 * 1024, ge=1)  # bytes of one connection that wait; then it is not read from
    forget: str | None = "90 days"  # after so long without a message a producer is a new one; none: never

    @field_validator("forget")
    @classmethod
    def _check_duration(cls, forget: str | None) -> str | None:
        if forget is not None:
            parse_duration(forget)
        return forget


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
    format: str | None = None  # csv, jsonl or parquet; else by the file's name
    settle: float = Field(default=2.0, ge=0)  # seconds without a change after which a file is whole


class WebSubSettings(_Section):
    """What is published on a topic, sent by its hub."""

    kind: Literal["websub"]
    channel: str
    topic: str
    callback: str  # where hubs reach this server, such as https://mill.example
    secret: str = Field(repr=False, min_length=16, max_length=199)
    hub: str | None = None  # else as the topic says
    lease: int = Field(default=86_400, ge=10)  # seconds that are asked for


SourceSettings = Annotated[TcpSettings | FolderSettings | WebSubSettings, Field(discriminator="kind")]


class _DeliverySettings(_Section):
    channel: str
    columns: tuple[str, ...] = ()  # only these
    where: tuple[str, ...] = ()  # only rows for which all of these hold, such as "price >= 10"


class WebhookDeliverySettings(_DeliverySettings):
    """The rows of new blocks as signed JSON lines."""

    kind: Literal["webhook"]
    url: str
    secret: str = Field(repr=False)


class MailDeliverySettings(_DeliverySettings):
    """The rows of new blocks by e-mail."""

    kind: Literal["mail"]
    host: str
    port: int = 587
    starttls: bool = True
    user: str | None = None
    password: str | None = Field(default=None, repr=False)
    sender: str
    to: tuple[str, ...]


class ChannelDeliverySettings(_DeliverySettings):
    """The rows of new blocks as inserts: what comes out goes in again, at another door or the same."""

    kind: Literal["channel"]
    to: str  # an input channel


DeliverySettings = Annotated[
    WebhookDeliverySettings | MailDeliverySettings | ChannelDeliverySettings, Field(discriminator="kind")
]


class MaintenanceSettings(_Section):
    """What keeps storage and catalog from growing without bound."""

    automatic: bool = True  # tidy: the channels of a flow after its runs, and all of them as a server's chore
    history: int = Field(default=100, ge=1)  # runs remembered per channel and bound flow
    points: int = Field(default=50, ge=0)  # so many of the newest contents of a channel stay readable
    keep: str | None = None  # and those of so long, such as "7 days"
    small_file: int = Field(default=32 * 1024 * 1024, ge=0)  # bytes; larger files are shared when compacting
    audit: str = "90 days"  # so long it is known who changed what over the API and on the page
    grace: str = "2 minutes"  # so long files of garbage-collected blocks stay in the store
    orphans: str = "1 day"  # and what attempts left that ended without a result
    past: str = "90 days"  # so long submissions and events are remembered, and for as long as something needs them

    @field_validator("keep", "audit", "past", "grace", "orphans")
    @classmethod
    def _check_duration(cls, keep: str | None) -> str | None:
        if keep is not None:
            parse_duration(keep)
        return keep


class PlannerSettings(_Section):
    """How promises may be kept. Both are better left on; to compare, one can be switched off."""

    asynchronous: bool = True  # bring up to date what a promise needs, and let the rest be
    incremental: bool = True  # take in what changed, where that is cheaper than computing everything anew


class Settings(_Section):
    """Everything that can be set. Relative paths are relative to the project's directory."""

    workflows: tuple[str, ...] = ("workflow.py",)
    catalog: CatalogSettings = CatalogSettings()
    storage: StorageSettings = StorageSettings()
    spark: SparkSettings = SparkSettings()
    runs: RunSettings = RunSettings()
    upkeep: MaintenanceSettings = MaintenanceSettings()
    planner: PlannerSettings = PlannerSettings()
    server: ServerSettings = ServerSettings()
    api: ApiSettings = ApiSettings()
    push: PushSettings = PushSettings()
    sources: dict[str, SourceSettings] = Field(default_factory=dict)  # by the source's name
    deliver: dict[str, DeliverySettings] = Field(default_factory=dict)  # by the receiver's name
    notify: dict[str, ReceiverSettings] = Field(default_factory=dict)  # by the receiver's name


_ENVIRONMENT = {
    "TIDEMILL_CATALOG_URL": ("catalog", "url"),
    "TIDEMILL_STORAGE_URL": ("storage", "url"),
    "TIDEMILL_SPARK_MASTER": ("spark", "master"),
}


def find_project(start: Path) -> Path:
    """The nearest directory, from `start` upwards, that holds a `tidemill.toml`."""
    for directory in (start.resolve(), *start.resolve().parents):
        if (directory / FILE).is_file():
            return directory
    raise ConfigError(f"no {FILE} in {start.resolve()} or above it; make a project with: tidemill init")


def load_settings(project: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """The project's settings; the environment wins over the file."""
    try:
        with (project / FILE).open("rb") as file:
            data = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{project / FILE} is not TOML: {error}") from error
    except OSError as error:
        raise ConfigError(f"{project / FILE} cannot be read: {error.strerror}") from error
    for name, (section, key) in _ENVIRONMENT.items():
        if name in environment:
            data.setdefault(section, {})[key] = environment[name]
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{project / FILE}: {where}: {first['msg']} (found {first['input']!r})") from error


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
