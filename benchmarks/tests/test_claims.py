"""Declarations: a claim holds if it does in every set-up, and a verdict that has changed is noticed."""

from __future__ import annotations

from benchmarks.claims import Claim, Declaration

POSITIVE: Claim[int] = Claim(
    "1", "it is positive", "it is above 0", lambda found: found > 0, ("third",), "the third is not"
)
DECLARED = Declaration({"numbers": "three"}, (POSITIVE,))


def test_a_claim_holds_only_if_it_does_in_every_setup() -> None:
    assert DECLARED.judge({"first": 1, "second": 2}).holds
    judged = DECLARED.judge({"first": 1, "third": -1})
    assert not judged.holds
    assert judged.verdicts[0].fails_in == ["third"]


def test_a_failure_that_is_known_is_expected_and_every_change_is_not() -> None:
    assert DECLARED.judge({"first": 1, "third": -1}).changes == []
    assert DECLARED.judge({"first": -1, "third": -1}).changes == ["it is positive (first)"]
    assert DECLARED.judge({"first": 1, "third": 1}).changes == ["it is positive (third)"]


def test_a_verdict_says_claim_rule_and_setup() -> None:
    judged = DECLARED.judge({"first": 1, "third": -1})
    assert judged.to_text() == [
        "Set-up",
        "  numbers: three",
        "Claims of the paper",
        "  does not hold (third): it is positive (section 1). Rule: it is above 0. Finding: the third is not",
    ]
    document = judged.to_json()
    assert (document["holds"], document["unexpected"], document["parameters"]) == (False, [], {"numbers": "three"})
    assert document["claims"][0]["by_setup"] == {"first": True, "third": False}
    assert document["claims"][0]["rule"] == "it is above 0"
