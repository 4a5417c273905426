"""`linear-road`: one run of the benchmark with its verdict, or a search for the largest load that passes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.linear_road import dispatched
from benchmarks.linear_road.live import Clock, Live, ProgressReporter, compute_verdict, play, summarize
from benchmarks.linear_road.rows import ANSWERS, Columns, answer_columns, read_history, read_input
from benchmarks.linear_road.tolling import NO_HISTORY
from benchmarks.linear_road.traffic import Plan, generate_traffic
from tidemill.runtime.runs.dispatch import DispatchConfig
from tidemill.sim.chart import render_line_chart

Curves = dict[str, list[tuple[float, float]]]

SEARCH_PRECISION = 1.1
"""The search ends at this ratio of the smallest failing to the largest passing number."""


@dataclass(frozen=True, slots=True)
class Files:
    """Input and output files, as CSV in the specification's columns."""

    input: Path | None = None  # None: traffic is generated
    history: Path | None = None
    output: Path | None = None
    plot: Path | None = None


def measure(
    directory: Path,
    *,
    plan: Plan,
    files: Files,
    check: bool = True,
    on_progress: ProgressReporter,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """One run: response times by kind of answer, costs of a batch, and the verdict."""
    rows, history = _load_rows(plan, files, on_progress)
    on_progress(f"playing {len(rows['time'])} rows in real time")
    live = play(directory, rows, history, clock or Clock(), on_progress)
    if files.output is not None:
        _write_answers(files.output, live)
    if files.plot is not None:
        _draw_chart(files.plot, "Response time", _build_curves(live))
    return summarize(live) | (_judge(live, rows, history, on_progress) if check else {"verdict": "not checked"})


def compare(
    directory: Path,
    *,
    policies: Sequence[str],
    plan: Plan,
    files: Files,
    on_progress: ProgressReporter,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """The same rows with several policies of the dispatcher, for two flows on one track."""
    for policy in policies:
        DispatchConfig(policy).validate_values()
    rows, history = _load_rows(plan, files, on_progress)
    results: list[dict[str, Any]] = []
    curves: Curves = {}
    for policy in policies:
        on_progress(f"playing {len(rows['time'])} rows under {policy}")
        live = dispatched.play(directory / policy, rows, history, policy, clock or Clock(), on_progress)
        curves |= {f"{policy}, {kind}": curve for kind, curve in _build_curves(live).items() if kind in COMPARED}
        results.append({"policy": policy, **summarize(live), **_judge(live, rows, history, on_progress)})
        shutil.rmtree(directory / policy)
    if files.plot is not None:
        _draw_chart(files.plot, "Response time by policy", curves)
    return {"policies": results}


COMPARED = ("tolls", "expenditures")
"""One kind of answer of each flow."""


def rate(directory: Path, *, plan: Plan, on_progress: ProgressReporter, clock: Clock | None = None) -> dict[str, Any]:
    """The largest number of expressways for which the run passes, and all tries."""
    tries: list[dict[str, Any]] = []

    def passes(expressways: float) -> bool:
        run_directory = directory / f"{expressways:g}"
        try_plan = replace(plan, expressways=expressways)
        result = measure(run_directory, plan=try_plan, files=Files(), on_progress=on_progress, clock=clock)
        shutil.rmtree(run_directory)  # the answers of many expressways are large
        tries.append({"expressways": expressways, **result})
        on_progress(f"{expressways:g} expressways: {result['verdict']}")
        return bool(result["verdict"] == "passed")

    return {
        "rating": find_highest(passes, plan.expressways),
        "seconds": plan.seconds,
        "start": plan.start,
        "tries": tries,
    }


def find_highest(passes: Callable[[float], bool], first: float) -> float:
    """About the largest number that passes: doubles until one fails, then bisects.

    >>> find_highest(lambda n: n <= 23, 4), find_highest(lambda n: False, 4)
    (22, 0.0)
    """
    if not passes(first):
        return 0.0
    good, bad = first, first * 2
    while passes(bad):
        good, bad = bad, bad * 2
    while bad / good > SEARCH_PRECISION and bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if passes(middle) else (good, middle)
    return good


def _load_rows(plan: Plan, files: Files, on_progress: ProgressReporter) -> tuple[Columns, Columns]:
    if files.input is not None:
        return read_input(files.input), NO_HISTORY if files.history is None else read_history(files.history)
    on_progress(f"generating traffic on {plan.expressways:g} expressways")
    rows, history = generate_traffic(plan)
    return rows, history if files.history is None else read_history(files.history)


def _judge(live: Live, rows: Columns, history: Columns, on_progress: ProgressReporter) -> dict[str, Any]:
    on_progress("comparing the answers with the validator's")
    result = compute_verdict(live, rows, history)
    return {
        "right": result.right,
        "missing": {kind: len(answers) for kind, answers in result.missing.items()},
        "extra": {kind: len(answers) for kind, answers in result.extra.items()},
        "slow": result.slow,
        "verdict": "passed" if result.has_passed else "failed",
    }


def _write_answers(path: Path, live: Live) -> None:
    """Write all answers by kind; their times are rounded down to seconds."""
    with path.open("w", encoding="ascii") as file:
        for kind in ANSWERS:
            emit = np.floor(live.emitted[kind]).astype(np.int64)
            columns = answer_columns(kind, {**live.answers[kind], "emit": emit})
            np.savetxt(file, np.stack(columns, axis=1), fmt="%d", delimiter=",")


def _draw_chart(path: Path, title: str, curves: Curves) -> None:
    path.write_text(render_line_chart(title, "second", "seconds", curves), encoding="utf-8")


def _build_curves(live: Live) -> Curves:
    """The slowest answer of every batch, by kind."""
    curves = {}
    for kind in ANSWERS:
        batches, batch_numbers = np.unique(live.emitted[kind], return_inverse=True)
        slowest = np.zeros(len(batches))
        np.maximum.at(slowest, batch_numbers, live.get_response_times(kind))
        if len(batches):
            curves[kind] = list(zip(batches.tolist(), slowest.tolist(), strict=True))
    return curves
