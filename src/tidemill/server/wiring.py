"""The API of a project, configured by its settings."""

from __future__ import annotations

import time
from collections.abc import Callable

from fastapi import FastAPI

from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.server.access import AccessControl
from tidemill.server.app import build_api
from tidemill.server.options import ApiOptions
from tidemill.server.throttle import Throttle


def build_access(mill: Tidemill) -> AccessControl:
    api_settings = mill.settings.api
    throttle = Throttle(time.monotonic, max_failures=api_settings.max_failed_logins)
    return AccessControl(mill.catalog.accounts, enabled=api_settings.authentication, throttle=throttle)


def build_application(mill: Tidemill, access: AccessControl, wake: Callable[[], None]) -> FastAPI:
    """`wake` is called when something may have become due."""
    return build_api(mill, access, build_options(mill.settings), wake=wake)


def build_options(settings: Settings) -> ApiOptions:
    api_settings, push_settings = settings.api, settings.push
    return ApiOptions(
        allowed_hosts=api_settings.allowed_hosts,
        max_upload_bytes=api_settings.max_upload_bytes,
        max_wait=push_settings.max_wait,
        max_rows=push_settings.max_rows,
        max_bytes=push_settings.max_bytes,
        max_message_bytes=push_settings.max_message_bytes,
        max_unacknowledged_bytes=push_settings.max_unacknowledged_bytes,
    )
