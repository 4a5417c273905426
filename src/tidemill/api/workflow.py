"""Workflows: channels, and flows bound to them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from tidemill.algebra.declare import compile_workflow
from tidemill.api import parts
from tidemill.api.flow import Flow
from tidemill.api.marks import Duration, Key
from tidemill.api.options import DeclaredOptions, FreshnessOptions, RunOptions, Schedule, ScheduleOptions, read_options
from tidemill.api.watermarks import WATERMARK, build_watermark_function
from tidemill.errors import WorkflowError
from tidemill.model.analysis import NO_KNOWLEDGE, SchemaKnowledge
from tidemill.model.block import BlockKind
from tidemill.model.change import Append, Updates
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.freshness_target import FreshnessTarget
from tidemill.model.location import SourceLocation, find_caller
from tidemill.model.renamed import reject_renamed_keywords
from tidemill.model.targeted_workflow import add_freshness_targets, find_misplaced_targets
from tidemill.model.task import Function, ReadMode, Task, TaskInput, TaskOutput, Variant
from tidemill.model.trigger import Trigger
from tidemill.model.units import parse_duration
from tidemill.model.workflow import WorkflowSpec as WorkflowModel
from tidemill.model.workflow import find_unrelated_groups, merge_bindings, sort_tasks


class Workflow(Flow):
    """Channels and bound flows. A task declared on it directly is a separate flow, bound by name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._channels: dict[str, Channel] = {}
        self._duplicates: list[Channel] = []
        self._bindings: list[BoundFlow] = []
        self._groups: dict[str, list[BoundFlow]] = {}
        self._targets: dict[str, tuple[FreshnessTarget, SourceLocation]] = {}

    def input(self, name: str, schema: str, *, key: Key | None = None, updates: Updates | None = None) -> str:
        """Declare an input channel: with upserts if it has a key, else with appends."""
        return self._declare_channel(name, ChannelRole.INPUT, schema, key, updates)

    def table(
        self,
        name: str,
        schema: str | None = None,
        *,
        key: Key | None = None,
        updates: Updates | None = None,
        **options: Unpack[FreshnessOptions],
    ) -> str:
        """Declare a channel that tasks write. An undeclared one is an append channel with its first block's schema.

        `freshness` is what external readers demand of it; see `tidemill.api.options`.
        """
        where = find_caller()
        self._record_target(name, read_options(FreshnessOptions, options, where).target, where)
        return self._declare_channel(name, ChannelRole.DERIVED, schema, key, updates)

    @reject_renamed_keywords(disorder="delay")
    def watermark(
        self,
        name: str,
        channel: str,
        *,
        at: str,
        delay: Duration = 0.0,
        punctuation: str | None = None,
        **options: Unpack[RunOptions],
    ) -> str:
        """Declare the events of an append channel up to its watermark, by the event time in column `at`.

        `delay` bounds how far events are out of order: the watermark is that long before the newest event. Or
        `punctuation`, a condition: an event that meets it guarantees that no older one will arrive. Younger events
        wait on the channel `name.pending` until the watermark has passed them; late events go to `name.late`.
        """
        where = find_caller()
        declared = read_options(RunOptions, options, where)
        source = self._channels.get(channel)
        if source is None or source.schema is None or not isinstance(source.updates, Append):
            raise WorkflowError([f"{where}: {channel!r} must be an append channel with a schema, declared before"])
        if at not in source.schema:
            raise WorkflowError([f"{where}: channel {channel!r} has no column {at!r} of event time"])
        schema, pending, late = str(source.schema), f"{name}.pending", f"{name}.late"
        self._declare_channel(name, ChannelRole.DERIVED, schema, None, None)
        self._declare_channel(late, ChannelRole.DERIVED, schema, None, None)
        self._declare_channel(pending, ChannelRole.DERIVED, f"{schema}, {WATERMARK} timestamp", None, None)
        reads = (TaskInput("rows", channel, ReadMode.NEW), TaskInput("pending", pending, ReadMode.ALL))
        writes = (
            TaskOutput("complete", name, BlockKind.DELTA),
            TaskOutput("late", late, BlockKind.DELTA),
            TaskOutput("pending", pending, BlockKind.BASE, watermark_column=WATERMARK),
        )
        code = Function(build_watermark_function(at, parse_duration(delay), punctuation))
        task = Task(name, (Variant("programmed", reads, writes, code),), **declared.task_fields)
        self._record_target(name, declared.target, where)
        self._add_binding(name, [task], declared)
        return name

    def bind(
        self,
        flow: Flow,
        name: str | None = None,
        *,
        schedule: Schedule | None = None,
        every: Duration | None = None,
        triggers: Sequence[Trigger] | None = None,
        priority: float | None = None,
        **ports: str,
    ) -> str:
        """Bind a flow's ports to channels, which makes it runnable; ports not given keep their names."""
        where = find_caller()
        model = flow.build()
        parts.check_ports(model, ports, where)
        tasks = [t.rebind_ports(t.name, ports) for t in model.list_tasks()]
        options = {"schedule": schedule, "every": every, "triggers": triggers, "priority": priority}
        given = {option: value for option, value in options.items() if value is not None}
        self._add_binding(name or flow.name, tasks, read_options(ScheduleOptions, given, where))
        return name or flow.name

    def build_spec(self, knowledge: SchemaKnowledge = NO_KNOWLEDGE) -> WorkflowModel:
        """Return the declarations as one validated value; raises `WorkflowError` with every problem found."""
        channels = (*self._channels.values(), *self._duplicates)
        groups = (merge_bindings(name, parts) for name, parts in self._groups.items())
        workflow = compile_workflow(self.name, channels, (*self._bindings, *groups), knowledge).validate_spec()
        problems = [*find_misplaced_targets(workflow, self._targets), *find_unrelated_groups(self._groups)]
        if problems:
            raise WorkflowError(problems)
        resolved = add_freshness_targets(workflow, self._targets).fix_identities()
        return replace(resolved, resolve=self.build_spec)

    def _add_task(self, task: Task, declared: DeclaredOptions, companions: Sequence[Task] = ()) -> None:
        if declared.target and len(task.writes) > 1:
            where = f"{task.location}: task {task.name!r} writes several channels"
            raise WorkflowError([f"{where}; set target_lag and consistency on each with table()"])
        self._record_target(task.writes[0].port if task.writes else task.name, declared.target, task.location)
        self._add_binding(task.name, [*companions, task], declared)
        if declared.refresh_group is not None:
            self._groups.setdefault(declared.refresh_group, []).append(self._bindings.pop())

    def _is_written(self, channel: str) -> bool:
        bindings = [*self._bindings, *(b for group in self._groups.values() for b in group)]
        return any(channel in binding.written_channels for binding in bindings)

    def _record_target(self, channel: str, target: FreshnessTarget, where: SourceLocation) -> None:
        if not target:
            return
        if channel in self._targets:
            first = self._targets[channel][1]
            raise WorkflowError([f"{where}: {channel!r} has two freshness targets; the first is declared at {first}"])
        self._targets[channel] = (target, where)

    def _add_binding(self, name: str, tasks: Sequence[Task], declared: DeclaredOptions) -> None:
        where, priority = declared.location, declared.priority
        if not 0 < priority < float("inf"):
            raise WorkflowError(
                [f"{where}: expected a priority above 0, larger for more important flows, found {priority}"]
            )
        self._bindings.append(BoundFlow(name, sort_tasks(tasks), where, declared.triggers, float(priority)))

    def _declare_channel(
        self, name: str, role: ChannelRole, schema: str | None, key: Key | None, updates: Updates | None
    ) -> str:
        where = find_caller()
        parsed_schema = parts.parse_schema(name, schema, where)
        channel = Channel(name, role, parsed_schema, parts.choose_updates(name, key, updates, where), where)
        if name in self._channels:
            self._duplicates.append(channel)
        else:
            self._channels[name] = channel
        return name
