"""Workflows: channels, and flows bound to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.algebra.declare import worked_out
from tidemill.api import parts
from tidemill.api.flow import Flow
from tidemill.api.marks import Duration, Key, Lag
from tidemill.api.watermarks import EDGE, settling
from tidemill.errors import WorkflowError
from tidemill.model.analysis import NOTHING_KNOWN, Knowledge
from tidemill.model.block import Kind
from tidemill.model.change import Append, Updates
from tidemill.model.channel import Channel, Role
from tidemill.model.flow import Binding
from tidemill.model.freshness_target import Promise
from tidemill.model.location import Location, caller
from tidemill.model.refresh_group import apart
from tidemill.model.refresh_group import together as one_flow
from tidemill.model.targeted_workflow import misplaced, with_promises
from tidemill.model.task import Function, Mode, Read, Task, Variant, Write
from tidemill.model.trigger import Trigger
from tidemill.model.units import seconds
from tidemill.model.workflow import Workflow as WorkflowModel
from tidemill.model.workflow import in_order


class Workflow(Flow):
    """Channels and bound flows. A task declared on it directly is a flow of its own, bound by name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._channels: dict[str, Channel] = {}
        self._again: list[Channel] = []
        self._bindings: list[Binding] = []
        self._together: dict[str, list[Binding]] = {}
        self._promises: dict[str, tuple[Promise, Location]] = {}

    def input(self, name: str, schema: str, *, key: Key | None = None, updates: Updates | None = None) -> str:
        """Declare a channel that is fed from outside: as upserts if it has a key, else as appends."""
        return self._declare(name, Role.INPUT, schema, key, updates)

    def table(
        self,
        name: str,
        schema: str | None = None,
        *,
        key: Key | None = None,
        updates: Updates | None = None,
        target_lag: Lag | None = None,
        consistency: Duration | None = None,
        accepts: Sequence[str] = (),
    ) -> str:
        """Declare a channel that tasks write. Undeclared ones are append channels with the schema first written.

        For `target_lag` and `consistency` see `sql`. `accepts` says in which forms those outside take what is new:
        "base" (the whole content), "delta", or "monotone" (a delta that takes nothing back); any, unless said.
        """
        where = caller()
        self._promise(name, parts.promise(target_lag, consistency, accepts, where), where)
        return self._declare(name, Role.DERIVED, schema, key, updates)

    def settled(
        self,
        name: str,
        channel: str,
        *,
        at: str,
        disorder: Duration = 0.0,
        punctuation: str | None = None,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        target_lag: Lag | None = None,
        priority: float = 1.0,
    ) -> str:
        """Declare the events of an append channel up to its trailing edge, in column `at` of event time.

        `disorder` says how far events may be out of order: the edge is so long before the newest. Or `punctuation`, a
        condition: an event that fulfils it says that nothing older will come. Younger events are held until the edge
        has passed them. What comes later than that is kept on the channel `name.late`.
        """
        where = caller()
        source = self._channels.get(channel)
        if source is None or source.schema is None or not isinstance(source.updates, Append):
            raise WorkflowError([f"{where}: {channel!r} must be an append channel with a schema, declared before"])
        if at not in source.schema:
            raise WorkflowError([f"{where}: channel {channel!r} has no column {at!r} of event time"])
        schema, held, late = str(source.schema), f"{name}.held", f"{name}.late"
        self._declare(name, Role.DERIVED, schema, None, None)
        self._declare(late, Role.DERIVED, schema, None, None)
        self._declare(held, Role.DERIVED, f"{schema}, {EDGE} timestamp", None, None)
        reads = (Read("rows", channel, Mode.NEW), Read("held", held, Mode.ALL))
        writes = (
            Write("settled", name, Kind.DELTA),
            Write("late", late, Kind.DELTA),
            Write("held", held, Kind.BASE, edge=EDGE),
        )
        code = Function(settling(at, seconds(disorder), punctuation))
        task = Task(name, (Variant("programmed", reads, writes, code),), {}, location=where)
        self._promise(name, parts.promise(target_lag, None, (), where), where)
        self._bind(name, [task], where, parts.when(every, triggers, where), priority)
        return name

    def bind(
        self,
        flow: Flow,
        name: str | None = None,
        *,
        every: Duration | None = None,
        triggers: Sequence[Trigger] = (),
        priority: float = 1.0,
        **ports: str,
    ) -> str:
        """Attach a flow's ports to channels, which makes it runnable; ports not named keep their own names."""
        where = caller()
        model = flow.build()
        parts.check_ports(model, ports, where)
        tasks = [t.rebound(t.name, ports) for t in model.tasks()]
        self._bind(name or flow.name, tasks, where, parts.when(every, triggers, where), priority)
        return name or flow.name

    def declared(self, knowledge: Knowledge = NOTHING_KNOWN) -> WorkflowModel:
        """The declarations as one checked value; raises `WorkflowError` with every problem found."""
        channels = (*self._channels.values(), *self._again)
        groups = (one_flow(name, parts) for name, parts in self._together.items())
        workflow = worked_out(self.name, channels, (*self._bindings, *groups), knowledge).checked()
        problems = [*misplaced(workflow, self._promises), *apart(self._together)]
        if problems:
            raise WorkflowError(problems)
        resolved = with_promises(workflow, self._promises).with_fixed_identities()
        return replace(resolved, resolve=self.declared)

    def _place(
        self,
        task: Task,
        triggers: tuple[Trigger, ...],
        promise: Promise,
        priority: float,
        beside: Sequence[Task] = (),
        together: str | None = None,
    ) -> None:
        if promise and len(task.writes) > 1:
            where = f"{task.location}: task {task.name!r} writes several channels"
            raise WorkflowError([f"{where}; promise target_lag and consistency of each with table()"])
        self._promise(task.writes[0].port if task.writes else task.name, promise, task.location)
        self._bind(task.name, [*beside, task], task.location, triggers, priority)
        if together is not None:
            self._together.setdefault(together, []).append(self._bindings.pop())

    def _made(self, channel: str) -> bool:
        bindings = [*self._bindings, *(b for word in self._together.values() for b in word)]
        return any(channel in binding.written for binding in bindings)

    def _promise(self, channel: str, promise: Promise, where: Location) -> None:
        if not promise:
            return
        if channel in self._promises:
            first = self._promises[channel][1]
            raise WorkflowError([f"{where}: of {channel!r} something is promised twice; the first time at {first}"])
        self._promises[channel] = (promise, where)

    def _bind(
        self, name: str, tasks: Sequence[Task], where: Location, triggers: tuple[Trigger, ...], priority: float
    ) -> None:
        if not 0 < priority < float("inf"):
            raise WorkflowError(
                [f"{where}: a priority is more than 0, and larger for what matters more, not {priority}"]
            )
        self._bindings.append(Binding(name, in_order(tasks), where, triggers, float(priority)))

    def _declare(self, name: str, role: Role, schema: str | None, key: Key | None, updates: Updates | None) -> str:
        where = caller()
        found = parts.schema(name, schema, where)
        channel = Channel(name, role, found, parts.updates(name, key, updates, where), where)
        if name in self._channels:
            self._again.append(channel)
        else:
            self._channels[name] = channel
        return name
