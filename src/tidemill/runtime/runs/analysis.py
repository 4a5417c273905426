"""What is known of queries, functions and channels, remembered in the catalog.

Whoever applies a workflow asks Spark; whoever loads it afterwards needs no Spark to know the same. So what a workflow
resolves to changes only when somebody applies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemill.model.analysis import (
    Analysis,
    AnalysisRequest,
    ObservedSchema,
    SchemaKnowledge,
    Schemas,
    compute_inference_key,
)
from tidemill.model.block import Block
from tidemill.model.codec import Json
from tidemill.model.schema import Schema
from tidemill.model.task import Task
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.catalog import CatalogReader, CatalogWriter
from tidemill.ports.engine import Engine

_CHANNEL = "channel "
"""Before a channel's name: the key of the schema that was learnt from its blocks."""


class CachingAnalyser:
    """Answers what was asked before from the catalog, and the rest by the engine, if there is one."""

    def __init__(self, known: Mapping[str, Json], engine: Engine | None = None) -> None:
        self._known = known
        self._engine = engine
        self.new: dict[str, Json] = {}

    def analyse_query(self, query: AnalysisRequest) -> Analysis | None:
        key = query.compute_key()
        found = self._find_answer(key)
        if found is not None:
            return Analysis(Schema.from_ddl(found["schema"]), found["obstacle"])
        if self._engine is None:
            return None
        analysis = self._engine.analyse_query(query)
        if analysis is None:
            return None
        self.new[key] = {"schema": str(analysis.schema), "obstacle": analysis.obstacle}
        return analysis

    def infer_outputs(self, task: Task, inputs: Schemas) -> Schemas | None:
        key = compute_inference_key(task, inputs)
        found = self._find_answer(key)
        if found is None and self._engine is not None:
            inferred = self._engine.infer_outputs(task, inputs)
            if inferred is not None:  # a failure may pass, and is not remembered
                found = self.new[key] = {name: str(schema) for name, schema in inferred.items()}
        return {name: Schema.from_ddl(ddl) for name, ddl in found.items()} if found else None

    def _find_answer(self, key: str) -> Json | None:
        return self.new.get(key) or self._known.get(key)


def read_knowledge(catalog: CatalogReader, engine: Engine | None = None) -> SchemaKnowledge:
    """What was known when workflows were last applied; with an engine, what it is asked is known, too."""
    known = catalog.read_analyses()
    learnt = {
        key.removeprefix(_CHANNEL): ObservedSchema(Schema.from_ddl(found["schema"]), found["writer"])
        for key, found in known.items()
        if key.startswith(_CHANNEL)
    }
    return SchemaKnowledge(CachingAnalyser(known, engine), learnt)


def record_knowledge(catalog: CatalogWriter, knowledge: SchemaKnowledge) -> None:
    """Let all who load the workflows know the same."""
    if isinstance(knowledge.analyser, CachingAnalyser) and knowledge.analyser.new:
        catalog.record_analyses(knowledge.analyser.new)


def record_learned_schemas(catalog: CatalogWriter, learnt: Mapping[str, ObservedSchema]) -> None:
    """Keep what blocks have taught; it counts from the next time that workflows are applied."""
    answers = {_CHANNEL + name: {"schema": str(found.schema), "writer": found.writer} for name, found in learnt.items()}
    catalog.record_analyses(answers)


def find_learned_schemas(
    knowledge: SchemaKnowledge, workflow: WorkflowSpec, blocks: Iterable[Block]
) -> dict[str, ObservedSchema]:
    """What blocks have taught of channels that nobody declares and whose columns some declared table waits for."""
    waiting = {r.port for t in workflow.list_tasks() if t.batch_because is not None for r in t.reads}
    undeclared = {c.name for c in workflow.channels if c.schema is None}
    writers = {w.port: t.compute_identity() for t in workflow.list_tasks() if t.refresh is None for w in t.writes}
    wanted = undeclared & (waiting | set(knowledge.learnt))
    found = {
        b.channel: ObservedSchema(b.schema, writers[b.channel]) for b in blocks if b.channel in writers and b.schema
    }
    return {name: new for name, new in found.items() if name in wanted and knowledge.learnt.get(name) != new}
