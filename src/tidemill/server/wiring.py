"""The API of a project, as its settings want it."""

from __future__ import annotations

import time
from collections.abc import Callable

from fastapi import FastAPI

from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.catalog.access import Accounts
from tidemill.server.access import Access
from tidemill.server.app import api
from tidemill.server.options import Options
from tidemill.server.throttle import Throttle


def access_of(mill: Tidemill) -> Access:
    chosen = mill.settings.api
    throttle = Throttle(time.monotonic, most=chosen.failures)
    return Access(Accounts(mill.catalog), enabled=chosen.access, throttle=throttle)


def application(mill: Tidemill, access: Access, wake: Callable[[], None]) -> FastAPI:
    """`wake` is called when something may have become due."""
    return api(mill, access, options_of(mill.settings), wake=wake)


def options_of(settings: Settings) -> Options:
    chosen, push = settings.api, settings.push
    return Options(
        names=chosen.names,
        upload=chosen.upload,
        patience=push.seconds,
        rows=push.rows,
        bytes=push.bytes,
        message=push.message,
        window=push.window,
    )
