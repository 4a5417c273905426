"""`bench linear-road`: one run of the benchmark with its verdict, or the search for the most expressways that pass."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.linear_road import dispatched
from benchmarks.linear_road.live import Clock, Live, Tell, play, summary, verdict
from benchmarks.linear_road.rows import ANSWERS, Columns, answer_columns, read_history, read_input
from benchmarks.linear_road.tolling import NO_HISTORY
from benchmarks.linear_road.traffic import Plan, made
from tidemill.runtime.runs.dispatch import DispatchConfig
from tidemill.sim.chart import render_line_chart

Curves = dict[str, list[tuple[float, float]]]

CLOSE = 1.1
"""The search ends when what passes and what does not are so close."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where rows come from and where answers go, as CSV in the specification's columns."""

    input: Path | None = None  # None: traffic is made
    history: Path | None = None
    output: Path | None = None
    plot: Path | None = None


def measure(
    directory: Path, *, plan: Plan, files: Files, check: bool = True, tell: Tell, clock: Clock | None = None
) -> dict[str, Any]:
    """One run: response times by kind of answer, what a batch costs, and the verdict."""
    rows, history = _rows(plan, files, tell)
    tell(f"playing {len(rows['time'])} rows, a second in a second")
    live = play(directory, rows, history, clock or Clock(), tell)
    if files.output is not None:
        _write(files.output, live)
    if files.plot is not None:
        _draw(files.plot, "Response time", _curves(live))
    return summary(live) | (_judged(live, rows, history, tell) if check else {"verdict": "not checked"})


def compare(
    directory: Path, *, policies: Sequence[str], plan: Plan, files: Files, tell: Tell, clock: Clock | None = None
) -> dict[str, Any]:
    """The same rows under several policies of the dispatcher, the benchmark being two flows on one track."""
    for policy in policies:
        DispatchConfig(policy).validate_values()
    rows, history = _rows(plan, files, tell)
    found: list[dict[str, Any]] = []
    curves: Curves = {}
    for policy in policies:
        tell(f"playing {len(rows['time'])} rows under {policy}")
        live = dispatched.play(directory / policy, rows, history, policy, clock or Clock(), tell)
        curves |= {f"{policy}, {kind}": curve for kind, curve in _curves(live).items() if kind in COMPARED}
        found.append({"policy": policy, **summary(live), **_judged(live, rows, history, tell)})
        shutil.rmtree(directory / policy)
    if files.plot is not None:
        _draw(files.plot, "Response time by policy", curves)
    return {"policies": found}


COMPARED = ("tolls", "expenditures")
"""Of each flow a kind of answer."""


def rate(directory: Path, *, plan: Plan, tell: Tell, clock: Clock | None = None) -> dict[str, Any]:
    """The most expressways for which the whole run passes, and every try."""
    tries: list[dict[str, Any]] = []

    def passes(expressways: float) -> bool:
        place = directory / f"{expressways:g}"
        wanted = replace(plan, expressways=expressways)
        found = measure(place, plan=wanted, files=Files(), tell=tell, clock=clock)
        shutil.rmtree(place)  # the answers of many expressways take much room
        tries.append({"expressways": expressways, **found})
        tell(f"{expressways:g} expressways: {found['verdict']}")
        return bool(found["verdict"] == "passed")

    return {"rating": highest(passes, plan.expressways), "seconds": plan.seconds, "start": plan.start, "tries": tries}


def highest(passes: Callable[[float], bool], first: float) -> float:
    """About the largest number that passes: doubled until one does not, then halved in between.

    >>> highest(lambda n: n <= 23, 4), highest(lambda n: False, 4)
    (22, 0.0)
    """
    if not passes(first):
        return 0.0
    good, bad = first, first * 2
    while passes(bad):
        good, bad = bad, bad * 2
    while bad / good > CLOSE and bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if passes(middle) else (good, middle)
    return good


def _rows(plan: Plan, files: Files, tell: Tell) -> tuple[Columns, Columns]:
    if files.input is not None:
        return read_input(files.input), NO_HISTORY if files.history is None else read_history(files.history)
    tell(f"making traffic on {plan.expressways:g} expressways")
    rows, history = made(plan)
    return rows, history if files.history is None else read_history(files.history)


def _judged(live: Live, rows: Columns, history: Columns, tell: Tell) -> dict[str, Any]:
    tell("comparing the answers with the validator's")
    found = verdict(live, rows, history)
    return {
        "right": found.right,
        "missing": {kind: len(answers) for kind, answers in found.missing.items()},
        "extra": {kind: len(answers) for kind, answers in found.extra.items()},
        "slow": found.slow,
        "verdict": "passed" if found.passed else "failed",
    }


def _write(path: Path, live: Live) -> None:
    """All answers, kind by kind; the moment of each is rounded down to seconds."""
    with path.open("w", encoding="ascii") as file:
        for kind in ANSWERS:
            emit = np.floor(live.emitted[kind]).astype(np.int64)
            columns = answer_columns(kind, {**live.answers[kind], "emit": emit})
            np.savetxt(file, np.stack(columns, axis=1), fmt="%d", delimiter=",")


def _draw(path: Path, title: str, curves: Curves) -> None:
    path.write_text(render_line_chart(title, "second", "seconds", curves), encoding="utf-8")


def _curves(live: Live) -> Curves:
    """Of each kind, the slowest answer of every batch."""
    curves = {}
    for kind in ANSWERS:
        batches, place = np.unique(live.emitted[kind], return_inverse=True)
        slowest = np.zeros(len(batches))
        np.maximum.at(slowest, place, live.responses(kind))
        if len(batches):
            curves[kind] = list(zip(batches.tolist(), slowest.tolist(), strict=True))
    return curves
