"""The API of a project, as its settings want it."""

from __future__ import annotations

import time
from collections.abc import Callable

from fastapi import FastAPI

from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.catalog.access import AccountCatalog
from tidemill.server.access import AccessControl
from tidemill.server.app import build_api
from tidemill.server.options import ApiOptions
from tidemill.server.throttle import Throttle


def build_access(mill: Tidemill) -> AccessControl:
    chosen = mill.settings.api
    throttle = Throttle(time.monotonic, most=chosen.failures)
    return AccessControl(AccountCatalog(mill.catalog), enabled=chosen.access, throttle=throttle)


def build_application(mill: Tidemill, access: AccessControl, wake: Callable[[], None]) -> FastAPI:
    """`wake` is called when something may have become due."""
    return build_api(mill, access, build_options(mill.settings), wake=wake)


def build_options(settings: Settings) -> ApiOptions:
    chosen, push = settings.api, settings.push
    return ApiOptions(
        names=chosen.names,
        upload=chosen.upload,
        patience=push.seconds,
        rows=push.rows,
        bytes=push.bytes,
        message=push.message,
        window=push.window,
    )
