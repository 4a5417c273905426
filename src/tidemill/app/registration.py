"""The workflows of a project: those that its files and stored documents declare, and their registration."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidemill.app import lazy_imports, registry
from tidemill.app.project import Project
from tidemill.app.settings import SETTINGS_FILE, ChannelSetting
from tidemill.catalog import SqlCatalog
from tidemill.errors import ConfigError, Conflict, NotFound, TidemillError, WorkflowError
from tidemill.model.analysis import NO_KNOWLEDGE, SchemaKnowledge
from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.model.channel import ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.registration import RegistrationChange, diff_registration
from tidemill.model.workflow import WorkflowSpec, find_dangling_triggers, find_unresolved_tasks, suggest_similar
from tidemill.planner.validation import find_target_problems
from tidemill.planner.workflow_graph import build_graph
from tidemill.ports.engine import Engine
from tidemill.runtime.runs import analysis

log = logging.getLogger("tidemill.server")


class WorkflowRegistration:
    """Compares the declared workflows with the registered ones, and registers them.

    `load` imports the project's files; it is called once. `channel_settings` are the settings that name channels.
    """

    def __init__(
        self,
        catalog: SqlCatalog,
        engine: Engine,
        load: Callable[[], Project],
        channel_settings: Iterable[ChannelSetting] = (),
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._load = load
        self._channel_settings = tuple(channel_settings)
        self._declared: Project | None = None  # as declared in the files
        self._project: Project | None = None  # resolved with the knowledge of its queries
        self._knowledge = NO_KNOWLEDGE

    @property
    def project(self) -> Project:
        """The declarations of the project's workflow files, imported once, resolved with the last known schemas."""
        if self._project is None:
            self._resolve_project(analysis.read_knowledge(self._catalog.workflows))
        assert self._project is not None
        for module in self._project.modules:
            lazy_imports.ship_module(module)
        return self._project

    def list_workflows(self) -> Iterator[WorkflowSpec]:
        """The workflows of the files, and those that documents declare."""
        yield from self.project.workflows
        documents = [w.document for w in self._catalog.workflows.list() if w.document is not None]
        knowledge = analysis.read_knowledge(self._catalog.workflows) if documents else NO_KNOWLEDGE
        for document in documents:
            yield registry.build_workflow(registry.WorkflowDefinition.model_validate(document), knowledge)

    def list_custom_updates(self) -> dict[str, Updates]:
        """The declared merge kinds, if any channel needs the user's functions; else empty: the catalog has them."""
        has_custom = any(c.channel.updates.name == "custom" for c in self._catalog.channels.list())
        return self.project.list_updates() if has_custom else {}

    def plan(self) -> tuple[RegistrationChange, ...]:
        """The changes that `apply` would make.

        Raises `WorkflowError` for queries that Spark rejects, freshness targets that contradict each other, and
        triggers that wait for undeclared channels or flows; `ConfigError` for settings that name no suitable channel;
        and `Conflict`, as `apply` does, for changes that would make existing data unreadable.
        """
        knowledge = analysis.read_knowledge(self._catalog.workflows, self._engine)
        self._resolve_project(knowledge)
        analysis.record_knowledge(self._catalog.workflows, knowledge)
        for workflow in self.project.workflows:
            self._check_workflow(workflow)
        self._check_settings()
        refusals = [
            reason for workflow in self.project.workflows for reason in self._catalog.workflows.list_refusals(workflow)
        ]
        if refusals:
            raise Conflict("\n".join(refusals))
        return tuple(step for workflow in self.project.workflows for step in self._compute_difference(workflow))

    def apply(self) -> tuple[RegistrationChange, ...]:
        """Register the declarations of the workflow files; returns the changes."""
        steps = self.plan()
        for workflow in self.project.workflows:
            self._catalog.workflows.apply(workflow)
        return steps

    def register(self, data: Mapping[str, Any]) -> tuple[RegistrationChange, ...]:
        """Register a workflow given as a document; returns the changes."""
        document = registry.parse_definition(data)
        knowledge = analysis.read_knowledge(self._catalog.workflows, self._engine)
        workflow = registry.build_workflow(document, knowledge)
        if any(w.name == workflow.name for w in self.project.workflows):
            raise Conflict(
                f"workflow {workflow.name!r} is declared by a workflow file of this server; change that file"
            )
        self._check_workflow(workflow)
        analysis.record_knowledge(self._catalog.workflows, knowledge)
        steps = self._compute_difference(workflow)
        self._catalog.workflows.apply(workflow, document.model_dump(mode="json"))
        return steps

    def remove(self, workflow: str) -> None:
        """Deactivate a workflow; its data stay."""
        if any(w.name == workflow for w in self.project.workflows):
            raise Conflict(f"workflow {workflow!r} is declared by a workflow file; remove it there, then apply")
        self._catalog.workflows.remove(workflow)

    def find_applied_binding(self, name: str) -> BoundFlow:
        """The declared flow of that name; raises if another version of it is registered."""
        binding = self._find_binding(name)
        registered = self._catalog.flows.find_identity(name)
        if binding is not None and registered != binding.compute_identity():
            # Other processes may have found schemas since.
            self._resolve_project(analysis.read_knowledge(self._catalog.workflows))
            binding = self._find_binding(name)
        if binding is None:
            known = ", ".join(sorted(b.name for w in self.project.workflows for b in w.bindings))
            raise NotFound(f"no flow {name!r} is declared; the flows are {known or 'none'}")
        if registered != binding.compute_identity():
            raise ConfigError(f"flow {name!r} was changed since it was registered; review it with plan, then apply")
        return binding

    def apply_learned_schemas(self, blocks: Sequence[Block]) -> None:
        """Resolve and apply the workflows again if a run has shown columns that a declared table needs."""
        for workflow in self.project.workflows:
            schemas = analysis.find_learned_schemas(self._knowledge, workflow, blocks)
            if schemas and not self._compute_difference(workflow):  # unapplied changes of the user are not applied here
                analysis.record_learned_schemas(self._catalog.workflows, schemas)
                try:
                    self.apply()
                except TidemillError as error:  # the run is committed; the table stays in batch until it is applied
                    log.warning("the schemas found by run %s were not applied: %s", blocks[0].run, error)
                return

    def _resolve_project(self, knowledge: SchemaKnowledge) -> None:
        if self._declared is None:
            self._declared = self._load()
        self._project = self._declared.apply_knowledge(knowledge)
        self._knowledge = knowledge

    def _find_binding(self, name: str) -> BoundFlow | None:
        return next((b for w in self.list_workflows() for b in w.bindings if b.name == name), None)

    def _check_workflow(self, workflow: WorkflowSpec) -> None:
        """Reject freshness targets that contradict each other, and triggers that no data and no run can fire."""
        if any(c.freshness_target for c in workflow.channels):
            contradictions = find_target_problems(build_graph(workflow))
            if contradictions:
                raise WorkflowError([f"workflow {workflow.name!r}, {p.subject}: {p.reason}" for p in contradictions])
        declared = {w.name: w for w in (*self.project.workflows, workflow)}
        flows = {b.name for w in declared.values() for b in w.bindings}
        flows |= {b.name for b in self._catalog.flows.list() if b.workflow not in declared}
        dangling = find_dangling_triggers(workflow, self._read_roles(declared), flows)
        problems = [*find_unresolved_tasks(workflow), *dangling]
        if problems:
            raise WorkflowError(problems)

    def _check_settings(self) -> None:
        """Reject settings that name a channel that no workflow declares, or data for one that is not an input."""
        roles = self._read_roles({w.name: w for w in self.project.workflows})
        problems = []
        for setting in self._channel_settings:
            role = roles.get(setting.channel)
            if role is None:
                hint = suggest_similar(setting.channel, roles)
                problems.append(f"{setting.key}: no workflow declares a channel {setting.channel!r}{hint}")
            elif setting.is_input and role is not ChannelRole.INPUT:
                found = f"{setting.channel!r}, which a task writes; name another, or declare it with input()"
                problems.append(f"{setting.key}: expected an input channel, found {found}")
        if problems:
            raise ConfigError("\n".join(f"{SETTINGS_FILE}: {problem}" for problem in problems))

    def _read_roles(self, declared: Mapping[str, WorkflowSpec]) -> dict[str, ChannelRole]:
        """The channels after these workflows are applied; those of other workflows stay."""
        registered = [c.channel for c in self._catalog.channels.list() if c.workflow not in declared]
        return {c.name: c.role for c in (*registered, *(c for w in declared.values() for c in w.channels))}

    def _compute_difference(self, workflow: WorkflowSpec) -> tuple[RegistrationChange, ...]:
        channels = [c.channel for c in self._catalog.channels.list() if c.workflow == workflow.name]
        bindings = {
            b.name: (b.identity, ", ".join(task.name for task in b.tasks))
            for b in self._catalog.flows.list()
            if b.workflow == workflow.name
        }
        return diff_registration(workflow, channels, bindings)
