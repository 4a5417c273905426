"""What Spark's analyser says of a workflow's queries and functions before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidemill.model.identity import Identity, compute_identity
from tidemill.model.schema import Schema
from tidemill.model.task import Task

Schemas = Mapping[str, Schema]


class QueryRefused(Exception):
    """Spark does not accept a query, and why, in Spark's words."""


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    """A query over tables of known columns, and the operators that its incremental variants would be made of."""

    text: str
    tables: Schemas  # by the names that the query gives them
    operators: Any = None  # of the algebra; None if there are none
    channels: Mapping[str, str] = field(default_factory=dict)  # by the names that the query gives them
    description: str = ""  # of the operators

    def compute_key(self) -> Identity:
        """Equal keys have equal analyses."""
        tables = {name: str(schema) for name, schema in self.tables.items()}
        return compute_identity("query analysis", {"sql": self.text, "tables": tables, "operators": self.description})


@dataclass(frozen=True, slots=True)
class Analysis:
    """The columns of a query's result as Spark has them, and why only batch can keep it fresh, if that is so."""

    schema: Schema
    obstacle: str | None = None


class Analyser(Protocol):
    """Answers from what was analysed before, or by asking Spark; None where neither is possible."""

    def analyse_query(self, query: AnalysisRequest) -> Analysis | None:
        """Raises `QueryRefused` if Spark does not accept the query."""

    def infer_outputs(self, task: Task, inputs: Schemas) -> Schemas | None:
        """The columns that a function returns, by output, given those that it is called with, by argument."""


class NoAnalyser:
    """Knows nothing."""

    def analyse_query(self, query: AnalysisRequest) -> Analysis | None:
        return None

    def infer_outputs(self, task: Task, inputs: Schemas) -> Schemas | None:
        return None


@dataclass(frozen=True, slots=True)
class ObservedSchema:
    """The columns of a channel as a block has shown them, and the identity of the task that wrote it."""

    schema: Schema
    writer: Identity


@dataclass(frozen=True, slots=True)
class SchemaKnowledge:
    """What is known beside a workflow's declarations when it is resolved."""

    analyser: Analyser = NoAnalyser()
    learnt: Mapping[str, ObservedSchema] = field(default_factory=dict)  # by channel


NOTHING_KNOWN = SchemaKnowledge()


def compute_inference_key(task: Task, inputs: Schemas) -> Identity:
    """Equal keys have equal inferred outputs."""
    columns = {argument: str(schema) for argument, schema in inputs.items()}
    return compute_identity("inferred outputs", {"task": task.compute_identity(), "inputs": columns})
