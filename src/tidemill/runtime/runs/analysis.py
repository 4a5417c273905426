"""Analyses of queries, functions and channels, stored in the catalog.

Applying a workflow analyses it with Spark; loading it later reads the stored results and needs no Spark. So the
resolution of a workflow changes only when it is applied.
"""

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
from tidemill.ports.catalog import WorkflowCatalog, WorkflowQueries
from tidemill.ports.engine import Engine

_CHANNEL = "channel "
"""Prefix of a channel's name: the key of the schema that was observed in its blocks."""


class CachingAnalyser:
    """Answers known requests from the catalog, and others by the engine, if there is one."""

    def __init__(self, known: Mapping[str, Json], engine: Engine | None = None) -> None:
        self._known = known
        self._engine = engine
        self.new: dict[str, Json] = {}

    def analyse_query(self, query: AnalysisRequest) -> Analysis | None:
        key = query.compute_key()
        answer = self._find_answer(key)
        if answer is not None:
            return Analysis(Schema.from_ddl(answer["schema"]), answer["obstacle"])
        analysis = None if self._engine is None else self._engine.analyse_query(query)
        if analysis is not None:
            self.new[key] = {"schema": str(analysis.schema), "obstacle": analysis.obstacle}
        return analysis

    def infer_outputs(self, task: Task, inputs: Schemas) -> Schemas | None:
        key = compute_inference_key(task, inputs)
        answer = self._find_answer(key)
        if answer is None and self._engine is not None:
            inferred = self._engine.infer_outputs(task, inputs)
            if inferred is not None:  # a failure may be temporary, so it is not stored
                answer = self.new[key] = {name: str(schema) for name, schema in inferred.items()}
        return {name: Schema.from_ddl(ddl) for name, ddl in answer.items()} if answer else None

    def _find_answer(self, key: str) -> Json | None:
        return self.new.get(key) or self._known.get(key)


def read_knowledge(workflows: WorkflowQueries, engine: Engine | None = None) -> SchemaKnowledge:
    """Read the analyses of the last applied workflows; with an engine, new requests are answered, too."""
    analyses = workflows.read_analyses()
    observed = {
        key.removeprefix(_CHANNEL): ObservedSchema(Schema.from_ddl(answer["schema"]), answer["writer"])
        for key, answer in analyses.items()
        if key.startswith(_CHANNEL)
    }
    return SchemaKnowledge(CachingAnalyser(analyses, engine), observed)


def record_knowledge(workflows: WorkflowCatalog, knowledge: SchemaKnowledge) -> None:
    """Store new analyses, so that loading the workflows finds them."""
    if isinstance(knowledge.analyser, CachingAnalyser) and knowledge.analyser.new:
        workflows.record_analyses(knowledge.analyser.new)


def record_learned_schemas(workflows: WorkflowCatalog, schemas: Mapping[str, ObservedSchema]) -> None:
    """Store schemas that were observed in blocks; they take effect when workflows are applied next."""
    answers = {
        _CHANNEL + name: {"schema": str(observed.schema), "writer": observed.writer}
        for name, observed in schemas.items()
    }
    workflows.record_analyses(answers)


def find_learned_schemas(
    knowledge: SchemaKnowledge, workflow: WorkflowSpec, blocks: Iterable[Block]
) -> dict[str, ObservedSchema]:
    """Find schemas observed in blocks of undeclared channels whose columns a declared table depends on."""
    dependencies = {r.port for t in workflow.list_tasks() if t.batch_reason is not None for r in t.reads}
    undeclared = {c.name for c in workflow.channels if c.schema is None}
    written = {b.channel: b.schema for b in blocks if b.schema}
    relevant = undeclared & written.keys() & (dependencies | set(knowledge.observed_schemas))
    observed = {
        w.port: ObservedSchema(written[w.port], task.compute_identity())
        for task in workflow.list_tasks()
        for w in task.writes
        if w.port in relevant and task.refresh is None
    }
    return {name: schema for name, schema in observed.items() if knowledge.observed_schemas.get(name) != schema}
