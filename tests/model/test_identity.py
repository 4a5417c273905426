"""Identity changes with what a task does, and with nothing else."""

from __future__ import annotations

import tidemill as tm
from tidemill.model.block import Kind, Position
from tidemill.model.identity import code_identity
from tidemill.model.provenance import NOTHING, Provenance
from tidemill.model.run import Consumed, Span, output_identity, provenance
from tidemill.model.task import Mode, Sql


def one(x: int) -> int:
    return x + 1


def _same_as_one() -> object:
    def one(x: int) -> int:
        """A docstring, a comment and other spacing change nothing."""
        # nothing at all
        return (x
                + 1)  # fmt: skip

    return one


def _other() -> object:
    def one(x: int) -> int:
        return x + 2

    return one


def test_formatting_does_not_matter_but_meaning_does() -> None:
    assert code_identity(one) == code_identity(_same_as_one())  # type: ignore[arg-type]
    assert code_identity(one) != code_identity(_other())  # type: ignore[arg-type]
    assert Sql("SELECT  1").described() == Sql("select\n1").described()
    assert Sql("SELECT 1").described() != Sql("SELECT 2").described()


def _task(**options: object) -> tm.Workflow:
    wf = tm.Workflow("w")
    wf.input("a", "x int")
    wf.input("b", "x int")

    @wf.task(**options)  # type: ignore[call-overload, untyped-decorator]
    def t(a: tm.New, b: tm.All) -> tm.Delta:
        return a

    return wf


def test_an_output_is_known_by_its_task_and_inputs() -> None:
    (task,) = _task().declared().tasks()
    (other,) = _task(parameters={"n": 1}).declared().tasks()
    old, new = Position(1, NOTHING, "c1"), Position(2, NOTHING, "c2")
    reads = (Consumed("a", Mode.NEW, Span(old, new), True), Consumed("b", Mode.ALL, Span(old, old), True))
    later = (reads[0], Consumed("b", Mode.ALL, Span(old, new), True))
    known = output_identity(task, "t", reads)
    assert known == output_identity(task, "t", reads)
    assert len({known, output_identity(other, "t", reads), output_identity(task, "t", later)}) == 3


def test_what_is_declared_counts() -> None:
    (plain,), (versioned,), (varying,) = (
        list(_task(**options).declared().tasks())
        for options in ({}, {"version": "2", "environment": ["TZ"]}, {"deterministic": False})
    )
    assert plain.identity() != versioned.identity()
    assert (versioned.version, versioned.environment) == ("2", ("TZ",))
    assert plain.is_repeatable
    assert not varying.is_repeatable


def test_provenance_of_an_output() -> None:
    (task,) = _task().declared().tasks()
    v1, v2, w = (Provenance.of({(c,): [v]}) for c, v in (("a", 1), ("a", 2), ("in", 7)))
    reads = (
        Consumed("a", Mode.NEW, Span(Position(1, v1), Position(2, v2)), input=True),
        Consumed("b", Mode.ALL, Span(Position(), Position(4, w)), input=False),
    )
    lookup = {("in", "b"): [7]}
    source, target = provenance(task, Kind.DELTA, reads)
    assert source == Provenance.of({("a",): [1], **lookup})
    assert target == Provenance.of({("a",): [2], **lookup})
    assert provenance(task, Kind.BASE, reads) == (NOTHING, target)
