"""Blocking work, done while the server goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from nicegui import run

P = ParamSpec("P")
R = TypeVar("R")


async def off_loop(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do something that blocks, in a thread. Cancelled, like everything else, when the server stops."""
    done = await run.io_bound(lambda: (work(*args, **kwargs),))
    if done is None:  # so NiceGUI says, until its version 4, that it is stopping
        raise asyncio.CancelledError
    return done[0]
