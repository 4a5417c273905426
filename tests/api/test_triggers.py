"""Invalid triggers are reported with the user's file and line, and with the expected and the given value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import WorkflowError

ANY: Any = tm  # without the types of its functions

INVALID: dict[str, tuple[Callable[[], Any], str]] = {
    "no cron": (lambda: ANY.cron(None), "expected a cron expression such as '0 3 \\* \\* \\*', found None"),
    "cron of a number": (lambda: ANY.cron(5), "expected a cron expression such as '0 3 \\* \\* \\*', found 5"),
    "number as a zone": (lambda: ANY.cron("0 3 * * *", 5), "expected a time zone such as 'Europe/Berlin', found 5"),
    "no zone": (lambda: ANY.cron("0 3 * * *", None), "expected a time zone such as 'Europe/Berlin', found None"),
    "no channel": (lambda: ANY.on(None), "expected the name of a channel, found None"),
    "rows as text": (lambda: ANY.on("pages", rows="5"), "expected rows to be a whole number, found '5'"),
    "rows as a truth value": (lambda: ANY.on("pages", rows=True), "expected rows to be a whole number, found True"),
    "a part of a byte": (lambda: ANY.on("pages", bytes=1.5), "expected bytes to be a whole number, found 1.5"),
    "age": (lambda: ANY.on("pages", age=[]), "not a duration: \\[\\]"),
    "no flow": (lambda: ANY.after(None), "expected the name of a flow, found None"),
    "no period": (lambda: ANY.every(None), "not a duration: None; write it like '30s', '15 minutes' or '7 days'"),
    "truth value as a period": (lambda: ANY.every(True), "not a duration: True"),
    "endless period": (lambda: ANY.every(float("inf")), "an interval must be longer than 0 s and finite, not inf s"),
    "part that is no trigger": (lambda: ANY.all_of("pages"), "expected a trigger such as tm.every\\('1 day'\\), found"),
    "list of parts": (lambda: ANY.all_of([tm.on("pages")]), "expected a trigger such as"),
    "no trigger": (lambda: None, "expected a trigger such as tm.every\\('1 day'\\), found None"),
    "text instead of a trigger": (lambda: "0 3 * * *", "expected a trigger such as"),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_trigger_is_a_clear_error(name: str) -> None:
    build, message = INVALID[name]
    wf = tm.Workflow("w")
    wf.input("pages", "url string")
    with pytest.raises(WorkflowError, match=f"{__file__}:.*{message}"):
        wf.sql("copies", "SELECT * FROM pages", triggers=[build()])
        wf.build_spec()


def test_one_trigger_instead_of_a_list_is_a_clear_error() -> None:
    wf = tm.Workflow("w")
    wf.input("pages", "url string")
    with pytest.raises(WorkflowError, match="expected triggers to be a list of triggers, found"):
        ANY.Workflow.sql(wf, "copies", "SELECT * FROM pages", triggers=tm.on("pages"))
