"""A task's identity changes only with its meaning."""

from __future__ import annotations

import tidemill as tm
from tidemill.model.block import BlockKind, ChannelPosition
from tidemill.model.identity import compute_code_identity
from tidemill.model.provenance import EMPTY_PROVENANCE, Provenance
from tidemill.model.run import ConsumedInput, ReadSpan, compute_output_identity, compute_provenance
from tidemill.model.task import ReadMode, Sql


def one(x: int) -> int:
    return x + 1


def _define_same() -> object:
    def one(x: int) -> int:
        """A docstring, a comment and other spacing change nothing."""
        # a comment
        return (x
                + 1)  # fmt: skip

    return one


def _define_other() -> object:
    def one(x: int) -> int:
        return x + 2

    return one


def test_formatting_does_not_change_the_identity() -> None:
    assert compute_code_identity(one) == compute_code_identity(_define_same())  # type: ignore[arg-type]
    assert compute_code_identity(one) != compute_code_identity(_define_other())  # type: ignore[arg-type]
    assert Sql("SELECT  1").describe_code() == Sql("select\n1").describe_code()
    assert Sql("SELECT 1").describe_code() != Sql("SELECT 2").describe_code()


def _build_workflow(**options: object) -> tm.Workflow:
    wf = tm.Workflow("w")
    wf.input("a", "x int")
    wf.input("b", "x int")

    @wf.task(**options)  # type: ignore[call-overload, untyped-decorator]
    def t(a: tm.New, b: tm.All) -> tm.Delta:
        return a

    return wf


def test_an_output_is_identified_by_its_task_and_inputs() -> None:
    (task,) = _build_workflow().build_spec().list_tasks()
    (other,) = _build_workflow(parameters={"n": 1}).build_spec().list_tasks()
    old, new = ChannelPosition(1, EMPTY_PROVENANCE, "c1"), ChannelPosition(2, EMPTY_PROVENANCE, "c2")
    reads = (
        ConsumedInput("a", ReadMode.NEW, ReadSpan(old, new), True),
        ConsumedInput("b", ReadMode.ALL, ReadSpan(old, old), True),
    )
    later = (reads[0], ConsumedInput("b", ReadMode.ALL, ReadSpan(old, new), True))
    identity = compute_output_identity(task, "t", reads)
    assert identity == compute_output_identity(task, "t", reads)
    assert len({identity, compute_output_identity(other, "t", reads), compute_output_identity(task, "t", later)}) == 3


def test_declared_properties_are_part_of_the_identity() -> None:
    (plain,), (versioned,), (nondeterministic,) = (
        list(_build_workflow(**options).build_spec().list_tasks())
        for options in ({}, {"version": "2", "environment": ["TZ"]}, {"deterministic": False})
    )
    assert plain.compute_identity() != versioned.compute_identity()
    assert (versioned.version, versioned.environment) == ("2", ("TZ",))
    assert plain.is_repeatable
    assert not nondeterministic.is_repeatable


def test_the_provenance_of_an_output() -> None:
    (task,) = _build_workflow().build_spec().list_tasks()
    v1, v2, w = (Provenance.from_pathways({(c,): [v]}) for c, v in (("a", 1), ("a", 2), ("in", 7)))
    reads = (
        ConsumedInput("a", ReadMode.NEW, ReadSpan(ChannelPosition(1, v1), ChannelPosition(2, v2)), is_input=True),
        ConsumedInput("b", ReadMode.ALL, ReadSpan(ChannelPosition(), ChannelPosition(4, w)), is_input=False),
    )
    lookup = {("in", "b"): [7]}
    source, target = compute_provenance(task, BlockKind.DELTA, reads)
    assert source == Provenance.from_pathways({("a",): [1], **lookup})
    assert target == Provenance.from_pathways({("a",): [2], **lookup})
    assert compute_provenance(task, BlockKind.BASE, reads) == (EMPTY_PROVENANCE, target)
