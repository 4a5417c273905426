"""Declarations: a claim holds if it holds in every set-up, and changed verdicts are detected."""

from __future__ import annotations

from benchmarks.claims import Claim, Declaration

POSITIVE: Claim[int] = Claim(
    "1", "it is positive", "it is above 0", lambda number: number > 0, ("third",), "the third is not"
)
DECLARED = Declaration({"numbers": "three"}, (POSITIVE,))


def test_a_claim_holds_only_if_it_holds_in_every_setup() -> None:
    assert DECLARED.judge({"first": 1, "second": 2}).holds
    judgement = DECLARED.judge({"first": 1, "third": -1})
    assert not judgement.holds
    assert judgement.verdicts[0].fails_in == ["third"]


def test_only_verdicts_that_differ_from_the_declaration_are_changes() -> None:
    assert DECLARED.judge({"first": 1, "third": -1}).changes == []
    assert DECLARED.judge({"first": -1, "third": -1}).changes == ["it is positive (first)"]
    assert DECLARED.judge({"first": 1, "third": 1}).changes == ["it is positive (third)"]


def test_a_verdict_contains_claim_rule_and_setup() -> None:
    judgement = DECLARED.judge({"first": 1, "third": -1})
    assert judgement.to_text() == [
        "Set-up",
        "  numbers: three",
        "Claims of the paper",
        "  does not hold (third): it is positive (section 1). Rule: it is above 0. Finding: the third is not",
    ]
    document = judgement.to_json()
    assert (document["holds"], document["unexpected"], document["parameters"]) == (False, [], {"numbers": "three"})
    assert document["claims"][0]["by_setup"] == {"first": True, "third": False}
    assert document["claims"][0]["rule"] == "it is above 0"
