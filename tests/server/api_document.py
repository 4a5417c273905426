"""The OpenAPI document of a served project, from which requests are generated."""

from __future__ import annotations

import json
from typing import Any

import schemathesis
from schemathesis.specs.openapi.schemas import OpenApiSchema
from tests.server.mill import ServedProject

from tidemill.server.app import PREFIX


@schemathesis.serializer("application/x-ndjson")
def _serialize_lines(_context: schemathesis.SerializationContext, value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value, default=str).encode()


def load_document(shop: ServedProject) -> OpenApiSchema:
    return schemathesis.openapi.from_asgi(f"{PREFIX}/openapi.json", shop.app, headers=build_headers(shop))


def build_headers(shop: ServedProject, who: str = "admin") -> dict[str, str]:
    return {"Host": "127.0.0.1", "Authorization": f"Bearer {shop.tokens[who]}"}
