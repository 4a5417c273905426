"""Freshness targets: valid declarations, and those that are rejected when declared or applied."""

from __future__ import annotations

import pytest

import tidemill as tm
from tidemill.errors import WorkflowError
from tidemill.model.codec import target_from_json, target_to_json
from tidemill.model.freshness_target import ALL_PATHWAYS, DeliveryForm, FreshnessTarget
from tidemill.model.trigger import LagTrigger
from tidemill.planner.validation import find_target_problems
from tidemill.planner.workflow_graph import build_graph


def search(scores: object = None, ranked: object = None, consistency: object = None) -> tm.Workflow:
    wf = tm.Workflow("search")
    wf.input("pages", "url string, site string", key="url")
    wf.input("clicks", "user bigint, site string")
    wf.sql("scores", "SELECT site, count(*) AS n FROM clicks GROUP BY site", target_lag=scores)  # type: ignore[arg-type]
    query = "SELECT p.url, s.n FROM pages p JOIN scores s USING (site)"
    wf.sql("ranked", query, target_lag=ranked, consistency=consistency)  # type: ignore[arg-type]
    return wf


def read_error(wf: tm.Workflow) -> str:
    with pytest.raises(WorkflowError) as error:
        wf.build_spec()
    return str(error.value)


def test_a_lag_applies_to_all_inputs_or_to_each() -> None:
    (scores, ranked) = search("1 day", {"pages": "0s", "clicks": "2 days"}, "strict").build_spec().bindings
    assert scores.triggers == (LagTrigger("clicks", 86_400.0),)
    assert ranked.triggers == (LagTrigger("clicks", 172_800.0), LagTrigger("pages", 0.0))
    channel = search("1 day", consistency="strict").build_spec().find_channel("ranked")
    assert channel is not None
    assert channel.freshness_target == FreshnessTarget({}, 0.0)


def test_a_lag_for_an_unrelated_input_is_rejected() -> None:
    message = read_error(search(scores={"pages": "1 day"}))
    assert "'scores' names the route 'pages', but no data take that route; its inputs are clicks" in message


@pytest.mark.parametrize(("lag", "consistency"), [("soon", None), (None, "rather"), (-1, None)])
def test_invalid_durations_are_rejected(lag: object, consistency: object) -> None:
    with pytest.raises(WorkflowError, match=r"not a duration|cannot be negative"):
        search(lag, consistency=consistency)
        search(ranked=lag, consistency=consistency)


def test_a_second_target_is_rejected() -> None:
    wf = search("1 day")
    with pytest.raises(WorkflowError, match="two freshness targets; the first is declared at"):
        wf.table("scores", "site string, n bigint", target_lag="2 days")


def test_a_target_on_a_task_with_several_channels_or_in_a_flow_is_rejected() -> None:
    flow, wf = tm.Flow("part"), tm.Workflow("whole")
    with pytest.raises(WorkflowError, match=r"with table\(\)"):
        flow.sql("t", "SELECT 1 AS x FROM c", target_lag="1 day")
    with pytest.raises(WorkflowError, match="set target_lag and consistency on each"):
        wf.command("c", ["x"], reads={"a": tm.New}, writes={"b": tm.Delta, "d": tm.Delta}, target_lag="1 day")


def test_a_target_tighter_than_that_of_an_intermediate_is_rejected() -> None:
    (problem,) = find_target_problems(build_graph(search("1 day", "1 hour").build_spec()))
    assert (problem.subject, "3600 s by way of clicks > scores" in problem.reason) == ("ranked", True)
    assert "scores on the way by 86400 s; tighten the one or loosen the other" in problem.reason
    assert find_target_problems(build_graph(search("1 hour", "1 day").build_spec())) == []


def test_an_output_that_may_retract_rows_is_not_monotone() -> None:
    wf = search()
    wf.table("scores", "site string, n bigint", accepts=["monotone"])
    (problem,) = find_target_problems(build_graph(wf.build_spec()))
    assert "accept monotone, but only base or strong is written" in problem.reason
    with pytest.raises(WorkflowError, match="expected accepts to contain base, delta, monotone, found 'rows'"):
        wf.table("ranked", accepts=["rows"])


def test_a_target_is_restored_from_json() -> None:
    target = FreshnessTarget({ALL_PATHWAYS: 5.0, "a": 0.0}, 0.0, (DeliveryForm.BASE,))
    assert target_from_json(target_to_json(target)) == target
    assert target_to_json(FreshnessTarget()) == {}


def split(lag: object) -> tm.Workflow:
    wf = tm.Workflow("split")
    wf.input("log", "id bigint, news boolean")
    wf.sql("news", "SELECT id FROM log WHERE news")
    wf.sql("other", "SELECT id FROM log WHERE NOT news")
    wf.sql("all", "SELECT id FROM news UNION ALL SELECT id FROM other", target_lag=lag)  # type: ignore[arg-type]
    return wf


def test_a_lag_may_differ_by_pathway() -> None:
    declared = split({"log > news": "0s", "other": "1 day"}).build_spec()
    assert declared.bindings[-1].triggers == (LagTrigger("log", 0.0), LagTrigger("log", 86_400.0))
    bounds = next(c.bounds for c in build_graph(declared).channels if c.name == "all")
    assert bounds.staleness == {("log", "news"): 0, ("log", "other"): 86_400_000_000}


def test_the_shortest_lag_of_a_pathway_applies() -> None:
    declared = split({"log": "1 hour", "news": "0s", "other": "1 day"}).build_spec()
    assert declared.bindings[-1].triggers == (LagTrigger("log", 0.0), LagTrigger("log", 3_600.0))


def test_an_unknown_pathway_is_rejected() -> None:
    message = read_error(split({"news > other": "0s"}))
    assert "'all' names the route 'news > other', but no data take that route; its inputs are log" in message
