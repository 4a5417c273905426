"""Results of Spark's analyser for a workflow's queries and functions, before anything runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidemill.model.identity import Identity, compute_identity
from tidemill.model.schema import Schema
from tidemill.model.task import Task

Schemas = Mapping[str, Schema]


class QueryRefused(Exception):
    """Spark rejects a query; the message is Spark's."""


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    """A query over tables with known columns, and the operators of its incremental variants."""

    text: str
    tables: Schemas  # by their names in the query
    operators: Any = None  # of the algebra; None if there are none
    channels: Mapping[str, str] = field(default_factory=dict)  # by their names in the query
    description: str = ""  # of the operators

    def compute_key(self) -> Identity:
        """A cache key: equal keys have equal analyses."""
        tables = {name: str(schema) for name, schema in self.tables.items()}
        return compute_identity("query analysis", {"sql": self.text, "tables": tables, "operators": self.description})


@dataclass(frozen=True, slots=True)
class Analysis:
    """The columns of a query's result as Spark derives them, and the reason if only batch refresh is possible."""

    schema: Schema
    obstacle: str | None = None


class Analyser(Protocol):
    """Answers from cached analyses or by calling Spark; returns None where neither is possible."""

    def analyse_query(self, query: AnalysisRequest) -> Analysis | None:
        """Raises `QueryRefused` if Spark does not accept the query."""

    def infer_outputs(self, task: Task, inputs: Schemas) -> Schemas | None:
        """The columns that a function returns, by output, given the columns of its arguments."""


class NoAnalyser:
    """An analyser without Spark: every answer is None."""

    def analyse_query(self, query: AnalysisRequest) -> Analysis | None:
        return None

    def infer_outputs(self, task: Task, inputs: Schemas) -> Schemas | None:
        return None


@dataclass(frozen=True, slots=True)
class ObservedSchema:
    """The columns of a channel as observed in a block, and the identity of the task that wrote the block."""

    schema: Schema
    writer: Identity


@dataclass(frozen=True, slots=True)
class SchemaKnowledge:
    """Facts besides a workflow's declarations that are used to resolve it."""

    analyser: Analyser = NoAnalyser()
    observed_schemas: Mapping[str, ObservedSchema] = field(default_factory=dict)  # by channel


NO_KNOWLEDGE = SchemaKnowledge()


def compute_inference_key(task: Task, inputs: Schemas) -> Identity:
    """A cache key: equal keys have equal inferred outputs."""
    columns = {argument: str(schema) for argument, schema in inputs.items()}
    return compute_identity("inferred outputs", {"task": task.compute_identity(), "inputs": columns})
