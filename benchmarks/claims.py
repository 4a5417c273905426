"""What a paper claims, what decides whether that holds here, and under which set-up: declared before anything is run.

A declaration has one or several set-ups. Where the paper leaves a parameter open, several values of it are declared,
and a claim holds only if it holds in every one of them. What was found when the declaration was last measured belongs
to it, so that a claim that does not hold is explained, and a verdict that has changed is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import typer

from tidemill.cli.output import print_message

M = TypeVar("M")
"""What is measured in one set-up."""


@dataclass(frozen=True, slots=True)
class Claim(Generic[M]):
    """One thing that a paper says of a figure or a table."""

    section: str  # of the paper
    says: str  # the claim, in words of ours
    rule: str  # what decides, in a sentence
    holds: Callable[[M], bool]  # the same as code, for one set-up
    fails_in: tuple[str, ...] = ()  # the set-ups in which it did not hold when it was last measured
    finding: str = ""  # why, and what was found instead


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim holds in each set-up."""

    claim: Claim[Any]
    by_setup: Mapping[str, bool] = field(hash=False)

    @property
    def holds(self) -> bool:
        return all(self.by_setup.values())

    @property
    def fails_in(self) -> list[str]:
        return [setup for setup, holds in self.by_setup.items() if not holds]

    @property
    def unexpected(self) -> list[str]:
        """The set-ups in which the verdict is another one than when the claim was last measured."""
        return [setup for setup, holds in self.by_setup.items() if holds == (setup in self.claim.fails_in)]

    def to_json(self) -> dict[str, Any]:
        claim = self.claim
        return {
            "section": claim.section, "claim": claim.says, "rule": claim.rule, "holds": self.holds,
            "by_setup": dict(self.by_setup), "finding": claim.finding, "unexpected": self.unexpected,
        }  # fmt: skip

    def to_text(self) -> str:
        """For people: the claim, the rule and the verdict."""
        claim = self.claim
        found = "holds" if self.holds else f"does not hold ({', '.join(self.fails_in)})"
        why = f" Finding: {claim.finding}" if claim.finding else ""
        return f"{found}: {claim.says} (section {claim.section}). Rule: {claim.rule}.{why}"


@dataclass(frozen=True, slots=True)
class Declaration(Generic[M]):
    """All that is claimed of a figure or a table, and how it is measured."""

    parameters: Mapping[str, str] = field(hash=False)  # by name; what the paper leaves open is said to be open
    claims: tuple[Claim[M], ...]

    def judge(self, measured: Mapping[str, M]) -> Judgement:
        """Decide every claim by what was measured in each set-up."""
        verdicts = [Verdict(c, {name: c.holds(found) for name, found in measured.items()}) for c in self.claims]
        return Judgement(self.parameters, tuple(verdicts))


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdicts on a figure or a table."""

    parameters: Mapping[str, str] = field(hash=False)
    verdicts: tuple[Verdict, ...]

    @property
    def holds(self) -> bool:
        return all(verdict.holds for verdict in self.verdicts)

    @property
    def unexpected(self) -> list[str]:
        return [f"{v.claim.says} ({', '.join(v.unexpected)})" for v in self.verdicts if v.unexpected]

    def to_json(self) -> dict[str, Any]:
        return {
            "parameters": dict(self.parameters), "claims": [verdict.to_json() for verdict in self.verdicts],
            "holds": self.holds, "unexpected": self.unexpected,
        }  # fmt: skip

    def to_text(self) -> list[str]:
        """For people: the set-up, then every claim."""
        setup = (f"  {name}: {value}" for name, value in self.parameters.items())
        return ["Set-up", *setup, "Claims of the paper", *(f"  {verdict.to_text()}" for verdict in self.verdicts)]


def report_changes(judgement: Judgement, *, as_declared: bool) -> None:
    """Fail if a verdict is not the declared one. Another set-up than the declared one is told, and proves nothing."""
    for change in judgement.unexpected:
        print_message(f"not as declared: {change}")
    if judgement.unexpected and as_declared:
        raise typer.Exit(1)
