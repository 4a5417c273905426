"""The OpenAPI document is correct: generated requests are answered as it declares.

A request that the document allows may still be rejected: a schema cannot describe which texts are CSV, or times.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from schemathesis.specs.openapi.schemas import OpenApiSchema
from tests.server.api_document import build_headers, load_document
from tests.server.mill import ServedProject, serve_project
from tests.server.test_roles import ALLOWED, NAMES, PUBLIC

from tidemill.server.app import PREFIX

SEARCH = settings(
    max_examples=int(os.environ.get("TIDEMILL_API_EXAMPLES", "5")),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProject]:
    with serve_project(tmp_path_factory.mktemp("shop")) as project:
        project.insert()
        project.run()
        yield project


@pytest.fixture(scope="module")
def document(shop: ServedProject) -> OpenApiSchema:
    return load_document(shop)


@pytest.mark.parametrize("route", [*ALLOWED, *sorted(PUBLIC)])
def test_requests_are_answered_as_the_document_declares(
    document: OpenApiSchema, shop: ServedProject, route: str
) -> None:
    method, path = route.split()
    existing = {"name": NAMES.get(path.split("/")[1]), "run": 1, "block": 1}

    @SEARCH
    @given(case=document[f"{PREFIX}{path}"][method].as_strategy(), exists=st.booleans())
    def call(case: schemathesis.Case, exists: bool) -> None:
        excluded = [positive_data_acceptance]
        if exists:  # the name may have been the only fault
            case.path_parameters |= {k: v for k, v in existing.items() if k in case.path_parameters}
            excluded.append(negative_data_rejection)
        case.call_and_validate(headers=build_headers(shop), excluded_checks=excluded)

    call()
