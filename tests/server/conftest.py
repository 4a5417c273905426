from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import _EffectiveRouteContext as RouteContext
from tests.server.mill import ServedProject, serve_project

_contexts: dict[tuple[Any, ...], RouteContext] = {}
_build_context = RouteContext.from_api_route


def _share_context(*, original_route: Any, include_context: Any) -> RouteContext:
    """The same for the API of every test: FastAPI takes 0.3 s to prepare the routes of one."""
    key = (id(original_route), include_context.path_for(original_route), tuple(include_context.responses))
    if key not in _contexts:
        _contexts[key] = _build_context(original_route=original_route, include_context=include_context)
    return _contexts[key]


RouteContext.from_api_route = _share_context


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ServedProject]:
    """The project with access control on."""
    with serve_project(tmp_path) as project:
        yield project


@pytest.fixture
def open_shop(tmp_path: Path) -> Iterator[ServedProject]:
    """The project with access control off."""
    with serve_project(tmp_path, enabled=False) as project:
        yield project
