"""What a failed run shows: no values of rows and no secrets in its error and events, the full text in its log."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.model.redaction import Redactor
from tidemill.model.run import Run, RunState
from tidemill.runtime.runs.requests import request_flow_run

SECRET = "hunter2-and-more"

wf = tm.Workflow("leaks")
wf.input("people", "name string")
wf.table("copies", "name string")


@wf.task(writes={"copies": tm.Delta})
def copies(people: tm.New) -> dict[str, tm.Delta]:
    raise ValueError(f"no address of {people[0]['name']} at ftp://ann:secret-pw@host, key {SECRET}")


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    mill = Mill(wf.build_spec(), tmp_path)
    mill.executor = dataclasses.replace(mill.executor, redactor=Redactor.from_values({"API_TOKEN": SECRET}))
    yield mill
    mill.close()


def fail_run(mill: Mill) -> Run:
    mill.insert("people", "Alice")
    run = request_flow_run(mill.catalog, "copies")
    with pytest.raises(ValueError, match="no address") as error:
        mill.executor.attempt_run(run.id, mill.executor.build_flow_work(mill.binding("copies"), {}))
    assert error.value.__notes__ == [f"the run's log has the full text: tidemill runs {run.id} --log"]
    failed = mill.catalog.runs.read(run.id)
    assert failed.state is RunState.FAILED
    return failed


def test_the_error_of_a_run_has_neither_values_nor_secrets(mill: Mill) -> None:
    run = fail_run(mill)
    assert run.error is not None
    assert run.error.startswith("ValueError: no address of *** at")
    assert __file__ in run.error
    events = json.dumps([e.detail for e in mill.catalog.events.list()])
    for text in (run.error, events):
        assert not [value for value in ("Alice", SECRET, "secret-pw") if value in text]


def test_the_log_of_a_run_has_the_full_text_without_secrets(mill: Mill) -> None:
    log = mill.catalog.runs.read_log(fail_run(mill).id)
    assert "ValueError: no address of Alice at ftp://ann:***@host, key ***" in log
    assert "Traceback" in log
    assert SECRET not in log
