"""References by name: triggers and settings may only name channels and flows that exist after `apply`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.statement_count import count_statements
from tests.acceptance.plain import PlainEngine

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import ConfigError, WorkflowError
from tidemill.model.block import Block, BlockKind
from tidemill.model.schema import Schema
from tidemill.model.task import Task
from tidemill.model.trigger import Trigger

Open = Callable[..., Tidemill]


@pytest.fixture
def open_mill(tmp_path: Path) -> Iterator[Open]:
    mills: list[Tidemill] = []

    def open(*workflows: tm.Workflow, **sections: Any) -> Tidemill:
        project = Project(tuple(w.build_spec() for w in workflows))
        mills.append(Tidemill(tmp_path, Settings.model_validate(sections), project, engine=PlainEngine(str)))
        return mills[-1]

    yield open
    for mill in mills:
        mill.catalog.close()


def declare(name: str, *channels: str, triggers: tuple[Trigger, ...] = ()) -> tm.Workflow:
    """A workflow with input channels, and a table `<name>_copies` of the first of them."""
    wf = tm.Workflow(name)
    for channel in channels:
        wf.input(channel, "word string")
    wf.sql(f"{name}_copies", f"SELECT word FROM {channels[0]}", triggers=triggers)
    return wf


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        (tm.on("extra"), "waits for channel 'extra', which no"),
        (tm.after("second_copies"), "waits for flow 'second_copies'"),
    ],
)
def test_a_trigger_on_what_the_same_apply_removes_is_rejected(open_mill: Open, trigger: Trigger, message: str) -> None:
    second = declare("second", "others")
    first = declare("first", "words", "extra")
    open_mill(first, second).apply()
    renamed = tm.Workflow("second")
    renamed.input("others", "word string")
    changed = open_mill(declare("first", "words", triggers=(trigger,)), renamed)
    for command in (changed.plan, changed.apply):
        with pytest.raises(WorkflowError, match=message):
            command()


def test_a_trigger_may_name_a_channel_of_a_workflow_that_another_project_declares(open_mill: Open) -> None:
    open_mill(declare("second", "others")).apply()
    assert open_mill(declare("first", "words", triggers=(tm.on("others"), tm.after("second_copies")))).apply()


FOLDER = {"kind": "folder", "path": "inbox"}
WEBHOOK = {"kind": "webhook", "url": "https://a.example", "secret": "0123456789abcdef"}


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"sources": {"feed": {**FOLDER, "channel": "wrods"}}},
            "sources.feed.channel: no workflow declares a channel 'wrods'; did you mean 'words'\\?",
        ),
        (
            {"sources": {"feed": {**FOLDER, "channel": "first_copies"}}},
            "sources.feed.channel: expected an input channel, found 'first_copies', which a task writes",
        ),
        (
            {"deliver": {"out": {**WEBHOOK, "channel": "gone"}}},
            "deliver.out.channel: no workflow declares a channel 'gone'",
        ),
        (
            {"deliver": {"out": {"kind": "channel", "channel": "first_copies", "to": "gone"}}},
            "deliver.out.to: no workflow declares a channel 'gone'",
        ),
        (
            {"deliver": {"out": {"kind": "channel", "channel": "words", "to": "first_copies"}}},
            "deliver.out.to: expected an input channel, found 'first_copies'",
        ),
    ],
)
def test_a_setting_that_names_no_suitable_channel_is_rejected(
    open_mill: Open, sections: dict[str, Any], message: str
) -> None:
    mill = open_mill(declare("first", "words"), **sections)
    for command in (mill.plan, mill.apply):
        with pytest.raises(ConfigError, match=f"tidemill.toml: {message}"):
            command()


def test_settings_may_name_the_channels_of_all_workflows(open_mill: Open) -> None:
    open_mill(declare("second", "others")).apply()
    sources = {"feed": {**FOLDER, "channel": "words"}, "other": {**FOLDER, "channel": "others"}}
    assert open_mill(
        declare("first", "words"), sources=sources, deliver={"out": {**WEBHOOK, "channel": "first_copies"}}
    ).apply()


def declare_parts() -> tm.Workflow:
    """A table of a channel whose columns are known only from its blocks."""
    wf = tm.Workflow("shop")
    wf.input("orders", "word string")

    @wf.task
    def parts(orders: tm.New) -> tm.Base:
        return orders

    wf.sql("numbers", "SELECT part, count(*) AS n FROM parts GROUP BY part")
    return wf


def test_only_a_run_that_shows_new_columns_applies_the_workflow_again(
    open_mill: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run of the same thread waits for it, so otherwise it must cost nothing."""
    mill = open_mill(declare_parts())
    mill.apply()
    orders = Block(1, "orders", 1, BlockKind.DELTA, Schema.from_ddl("word string"))
    parts = Block(2, "parts", 1, BlockKind.BASE, Schema.from_ddl("part string"))
    applied = []
    apply = mill.workflows.apply
    monkeypatch.setattr(mill.workflows, "apply", lambda: applied.append(apply()))
    counts = []
    for blocks in ([orders], [parts], [parts], [orders, parts]):
        with count_statements(mill.catalog) as statements:
            mill.workflows.apply_learned_schemas(blocks)
        counts.append(statements.count)
    assert len(applied) == 1
    assert [bool(count) for count in counts] == [False, True, False, False]


def test_a_run_without_new_columns_hashes_no_code(open_mill: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    mill = open_mill(declare_parts())
    mill.apply()
    monkeypatch.setattr(Task, "compute_identity", None)
    mill.workflows.apply_learned_schemas([Block(1, "orders", 1, BlockKind.DELTA, Schema.from_ddl("word string"))])
