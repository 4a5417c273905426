"""A small project behind the API, without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.acceptance.plain import PlainEngine

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.model.access import UserRole
from tidemill.model.schema import Schema
from tidemill.model.task import Task
from tidemill.ports.accounts import AccountCatalog
from tidemill.ports.engine import Log
from tidemill.server.access import AccessControl
from tidemill.server.app import PREFIX, build_api
from tidemill.server.dependencies import ApiOptions

BASE_URL = "http://127.0.0.1"
OPTIONS = ApiOptions(
    allowed_hosts=("mill.example",),
    max_upload_bytes=100_000,
    max_body_bytes=64 * 1024,
    max_shared_bytes=1000,
    poll_interval=0.01,
    stream_seconds=0.0,
)
SETTINGS = Settings()
LOG_TEXT = "logged by a task"
CSV = b"id,word\n1,one\n2,two\n"

wf = tm.Workflow("shop")
wf.input("orders", "id int, word string")
wf.input("stock", "id int, word string", key="id")
wf.table("words", "word string")


@wf.task(writes={"words": tm.Delta}, triggers=[tm.on("orders")])
def words(orders: tm.New) -> dict[str, tm.Delta]:
    """The words of all new orders."""
    return {"words": [{"word": row["word"]} for row in orders]}


class Engine(PlainEngine):
    """Replaces the project's Spark engine."""

    def __init__(self, _session: object, locate: Callable[[str], str], _limits: object) -> None:
        super().__init__(locate)

    def run_task(self, task: Task, *args: Any, log: Log, **options: Any) -> Mapping[str, Schema]:
        log.write(LOG_TEXT)
        return super().run_task(task, *args, log=log, **options)


@dataclass(frozen=True)
class Caller:
    """Sends requests to the API in this process, from an address."""

    app: FastAPI
    headers: dict[str, str]
    address: str = "127.0.0.1"

    def request(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **options: Any
    ) -> httpx.Response:
        return asyncio.run(self._request(method, path, headers=self.headers | (headers or {}), **options))

    async def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, client=(self.address, 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
            return await client.request(method, path if "://" in path else f"{PREFIX}{path}", **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def put(self, path: str, **options: Any) -> httpx.Response:
        return self.request("PUT", path, **options)

    def delete(self, path: str, **options: Any) -> httpx.Response:
        return self.request("DELETE", path, **options)


@dataclass
class ServedProject:
    """The project, its API, and one token for each user."""

    mill: Tidemill
    access: AccessControl
    app: FastAPI
    tokens: dict[str, str]

    def client(self, who: str | None = "admin", address: str = "127.0.0.1") -> Caller:
        headers = {} if who is None else {"Authorization": f"Bearer {self.tokens[who]}"}
        return Caller(self.app, headers, address)

    def insert(self, body: bytes = CSV, channel: str = "orders", **headers: str) -> httpx.Response:
        sent = {"Content-Type": "text/csv"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return self.client().post(f"/channels/{channel}/blocks", content=body, headers=sent)

    def run(self) -> int:
        """Run the flow once and return the id of the run."""
        run, _ = self.mill.run("words")
        return run.id


@contextmanager
def serve_project(
    directory: Path, *, enabled: bool = True, options: ApiOptions = OPTIONS, settings: Settings = SETTINGS
) -> Iterator[ServedProject]:
    with _open_without_spark(directory, settings) as mill:
        mill.apply()
        access = AccessControl(mill.catalog.accounts, enabled=enabled)
        tokens = _create_users(access.accounts)
        access.accounts.set_owners("shop", ["owner", "author"])
        yield ServedProject(mill, access, build_api(mill, access, options), tokens)


def _open_without_spark(directory: Path, settings: Settings) -> Tidemill:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidemill.app.lazy_imports.SparkEngine", Engine)
        mill = Tidemill(directory, settings, Project((wf.build_spec(),)))
        mill.engine.report_health()  # builds the engine
        return mill


ROLES = {
    "viewer": UserRole.VIEWER,
    "owner": UserRole.OPERATOR,
    "operator": UserRole.OPERATOR,
    "author": UserRole.DEVELOPER,
    "developer": UserRole.DEVELOPER,
    "admin": UserRole.ADMIN,
}
"""The users; the owner and the author own the shop."""


def _create_users(accounts: AccountCatalog) -> dict[str, str]:
    for name, role in ROLES.items():
        accounts.save_user(name, role)
    return {name: accounts.issue_token(name).text for name in ROLES}


def read_state(mill: Tidemill) -> dict[str, Any]:
    """The state that a rejected request must not change."""
    catalog, accounts = mill.catalog, mill.catalog.accounts
    return {
        "channels": catalog.channels.list(),
        "bindings": catalog.flows.list(),
        "workflows": catalog.workflows.list(),
        "visible": [b for b in catalog.blocks.list(limit=10_000) if b.state == "filled"],
        "users": accounts.list_users(),
        "tokens": accounts.list_tokens(),
        "owners": accounts.list_owners("shop"),
    }
