"""Where things are shown."""

from __future__ import annotations

from urllib.parse import quote

from tidemill.model.run import Run, RunKind


def channel_url(name: str) -> str:
    """
    >>> channel_url("news.tagged")
    '/channels/news.tagged'
    """
    return f"/channels/{quote(name, safe='')}"


def flow_url(name: str) -> str:
    return f"/flows/{quote(name, safe='')}"


def run_url(run: int) -> str:
    return f"/runs/{run}"


def subject_url(run: Run) -> str:
    """What a run is about: a bound flow, or the channel inserted into or compacted; of an action, the run itself."""
    if run.kind is RunKind.ACTION:
        return run_url(run.id)
    return flow_url(run.subject) if run.kind is RunKind.FLOW else channel_url(run.subject)
