"""A fuzz of the API with every role: no server error, no forbidden change, and no leak between roles.

Requests are generated from the OpenAPI document, valid and invalid ones, by random users. It is stateful: they use the
numbers and names that earlier answers contained, on one catalog. `make fuzz` runs it for half an hour.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.schemas import OpenApiSchema
from tests.server.api_document import build_headers, load_document
from tests.server.mill import LOG_TEXT, ROLES, ServedProject, serve_project
from tests.server.test_roles import ALLOWED, NAMES, ONE_SHOT, OWNER

from tidemill.server.app import PREFIX

SECONDS = float(os.environ.get("TIDEMILL_FUZZ", "0"))
"""The length of the campaign; 0: one short round."""
ROUND = settings(
    max_examples=100 if SECONDS else 25,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
    database=None,
)
TOKEN = re.compile(r"tdm_[0-9a-f]{12}_[0-9a-f]{64}")
REFUSALS = {400, 401, 403, 404, 405, 413, 415, 422, 429}


@dataclass
class Campaign:
    """The project, the names and numbers that answers contained, and the number of answers by status."""

    shop: ServedProject
    document: OpenApiSchema
    seen: dict[str, list[str]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)

    def send(self, data: st.DataObject) -> None:
        """Send one generated request as a random user, and check the answer."""
        who, route = data.draw(st.sampled_from(list(ROLES))), data.draw(st.sampled_from(sorted(ALLOWED)))
        case = self._draw_case(data, route)
        parameters = case.path_parameters or {}
        known = {name: values for name, values in self._list_known(route).items() if name in parameters and values}
        for name, values in known.items():
            if data.draw(st.booleans()):
                parameters[name] = data.draw(st.sampled_from(values))
        answer = case.call(headers=build_headers(self.shop, who))
        self.statuses[answer.status_code] += 1
        self._check_answer(who, route, answer)
        if answer.status_code < 300:
            self._remember(route, answer.text)

    def _draw_case(self, data: st.DataObject, route: str) -> schemathesis.Case:
        method, path = route.split()
        operation = self.document[f"{PREFIX}{path}"][method]
        raw = operation.definition.raw
        modes = list(GenerationMode) if raw.get("parameters") or raw.get("requestBody") else [GenerationMode.POSITIVE]
        return data.draw(operation.as_strategy(generation_mode=data.draw(st.sampled_from(modes))))

    def _list_known(self, route: str) -> dict[str, list[str]]:
        noun = route.split("/")[1]
        names = [NAMES[noun], *self.seen.get(noun, ())] if noun in NAMES else []
        return {**self.seen, "name": names}

    def _remember(self, route: str, text: str) -> None:
        """Keep names and numbers that later requests may use."""
        try:
            answer = json.loads(text)
        except ValueError:
            return
        if isinstance(answer, dict):
            token = answer.get("token") or {}
            found = {
                "run": answer.get("id") if route.endswith(("/runs", "/retry")) else answer.get("run"),
                "block": answer.get("block"),
                "number": answer.get("id") if route == "POST /submissions" else None,
                "token": token.get("id") if isinstance(token, dict) else None,
            }
            for name, value in found.items():
                if isinstance(value, int | str):
                    self.seen.setdefault(name, []).append(str(value))

    def _check_answer(self, who: str, route: str, answer: Any) -> None:
        context = f"{who}: {route}: {answer.status_code} {answer.text[:500]}"
        assert answer.status_code < 500, context
        if not may_call(who, route):
            assert answer.status_code in REFUSALS, f"not forbidden: {context}"
        if who != "admin":
            assert not TOKEN.search(answer.text), f"a token: {context}"
        if who not in OWNER:
            assert LOG_TEXT not in answer.text, f"a log: {context}"


def may_call(who: str, route: str) -> bool:
    """Whether the user's role is sufficient; workflows that the requests register may have no owner."""
    return any(ROLES[who].covers_role(ROLES[allowed]) for allowed in ALLOWED[route])


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    with serve_project(tmp_path_factory.mktemp("shop")) as shop:
        shop.insert()
        run = shop.run()
        shop.client().post("/submissions", json=ONE_SHOT)
        shop.access.accounts.save_user("guest", ROLES["viewer"])
        yield Campaign(
            shop, load_document(shop), {"run": [str(run)], "block": ["1"], "trigger": ["1"], "number": ["1"]}
        )


def run_round(campaign: Campaign, number: int) -> None:
    @ROUND
    @seed(number)
    @given(data=st.data())
    def send_requests(data: st.DataObject) -> None:
        campaign.send(data)

    send_requests()


@pytest.mark.timeout(SECONDS + 300)
def test_no_request_of_any_role_fails_or_leaks(campaign: Campaign) -> None:
    first = random.randrange(10**9) if SECONDS else 0
    end = time.monotonic() + SECONDS
    rounds = 0
    while not rounds or time.monotonic() < end:
        run_round(campaign, first + rounds)
        rounds += 1
    print(f"{sum(campaign.statuses.values())} requests, by status: {dict(sorted(campaign.statuses.items()))}")
    assert any(status < 300 for status in campaign.statuses)
    assert campaign.statuses[403]
    assert len(campaign.shop.access.accounts.list_users()) >= len(ROLES)
