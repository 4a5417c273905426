"""Claims of a paper, the rules that decide them, and the set-ups: declared before anything is run.

A declaration has one or several set-ups. Where the paper leaves a parameter open, several values of it are declared,
and a claim holds only if it holds in every set-up. The declaration also records the findings of the last measurement,
so that a claim that does not hold is explained, and a changed verdict is detected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import typer

from tidemill.cli.output import print_message

M = TypeVar("M")
"""The measurement of one set-up."""


@dataclass(frozen=True, slots=True)
class Claim(Generic[M]):
    """One statement of a paper about a figure or a table."""

    section: str  # of the paper
    statement: str  # the claim, paraphrased
    rule: str  # the deciding rule, in a sentence
    holds: Callable[[M], bool]  # the rule as code, for one set-up
    fails_in: tuple[str, ...] = ()  # the set-ups in which it did not hold in the last measurement
    finding: str = ""  # the explanation, with the measured result


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
    def changed_setups(self) -> list[str]:
        """The set-ups whose verdict differs from that of the last measurement."""
        return [setup for setup, holds in self.by_setup.items() if holds == (setup in self.claim.fails_in)]

    def to_json(self) -> dict[str, Any]:
        claim = self.claim
        return {
            "section": claim.section, "claim": claim.statement, "rule": claim.rule, "holds": self.holds,
            "by_setup": dict(self.by_setup), "finding": claim.finding, "unexpected": self.changed_setups,
        }  # fmt: skip

    def to_text(self) -> str:
        """The verdict, the claim and the rule as one line of text."""
        claim = self.claim
        result = "holds" if self.holds else f"does not hold ({', '.join(self.fails_in)})"
        finding = f" Finding: {claim.finding}" if claim.finding else ""
        return f"{result}: {claim.statement} (section {claim.section}). Rule: {claim.rule}.{finding}"


@dataclass(frozen=True, slots=True)
class Declaration(Generic[M]):
    """All claims about a figure or a table, and the parameters of the measurement."""

    parameters: Mapping[str, str] = field(
        hash=False
    )  # by name; parameters that the paper leaves open are marked as such
    claims: tuple[Claim[M], ...]

    def judge(self, samples: Mapping[str, M]) -> Judgement:
        """Decide every claim by the measurements of each set-up."""
        verdicts = [Verdict(c, {name: c.holds(sample) for name, sample in samples.items()}) for c in self.claims]
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
    def changes(self) -> list[str]:
        return [f"{v.claim.statement} ({', '.join(v.changed_setups)})" for v in self.verdicts if v.changed_setups]

    def to_json(self) -> dict[str, Any]:
        return {
            "parameters": dict(self.parameters), "claims": [verdict.to_json() for verdict in self.verdicts],
            "holds": self.holds, "unexpected": self.changes,
        }  # fmt: skip

    def to_text(self) -> list[str]:
        """The set-up, then every claim, as lines of text."""
        setup = (f"  {name}: {value}" for name, value in self.parameters.items())
        return ["Set-up", *setup, "Claims of the paper", *(f"  {verdict.to_text()}" for verdict in self.verdicts)]


def report_changes(changes: Sequence[str], *, as_declared: bool) -> None:
    """Print changed verdicts, and exit with 1 if the measurement had the declared size."""
    for change in changes:
        print_message(f"not as declared: {change}")
    if changes and as_declared:
        raise typer.Exit(1)
