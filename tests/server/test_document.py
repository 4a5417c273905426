"""The OpenAPI document is true: generated calls are answered as it says.

That what the document allows is also accepted is not demanded: it cannot say which texts are CSV, or times.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from schemathesis.specs.openapi.schemas import OpenApiSchema
from tests.server.mill import Served, served
from tests.server.test_roles import ALLOWED, ANYONE, NAMES

from tidemill.server.app import PREFIX

SEARCH = settings(
    max_examples=int(os.environ.get("TIDEMILL_API_EXAMPLES", "20")),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)


@schemathesis.serializer("application/x-ndjson")
def _lines(_context: schemathesis.SerializationContext, value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value, default=str).encode()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("shop")) as found:
        found.insert()
        found.run()
        yield found


@pytest.fixture(scope="module")
def document(shop: Served) -> OpenApiSchema:
    return schemathesis.openapi.from_asgi(f"{PREFIX}/openapi.json", shop.app, headers=headers(shop))


def headers(shop: Served) -> dict[str, str]:
    return {"Host": "127.0.0.1", "Authorization": f"Bearer {shop.tokens['admin']}"}


@pytest.mark.parametrize("route", [*ALLOWED, *ANYONE])
def test_calls_are_answered_as_the_document_says(document: OpenApiSchema, shop: Served, route: str) -> None:
    method, path = route.split()
    there_is = {"name": NAMES.get(path.split("/")[1]), "run": 1, "block": 1}

    @SEARCH
    @given(case=document[f"{PREFIX}{path}"][method].as_strategy(), there=st.booleans())
    def call(case: schemathesis.Case, there: bool) -> None:
        unheeded = [positive_data_acceptance]
        if there:  # the name may have been all that was wrong
            case.path_parameters |= {k: v for k, v in there_is.items() if k in case.path_parameters}
            unheeded.append(negative_data_rejection)
        case.call_and_validate(headers=headers(shop), excluded_checks=unheeded)

    call()
