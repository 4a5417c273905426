"""Stateful tasks, windows and waves, as users declare them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from tidemill.api import parts, stateful
from tidemill.api.marks import STATE, F, Key, Reading
from tidemill.api.options import DeclaredOptions, RunOptions, read_options
from tidemill.model.location import SourceLocation, find_caller
from tidemill.model.renamed import raise_missing_attribute
from tidemill.model.schema import StateSchema
from tidemill.model.stateful import WindowTaskSpec
from tidemill.model.task import Task, TaskInput
from tidemill.model.window import Between, Window


class Streaming(ABC):
    """Declares tasks on streams of events."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return raise_missing_attribute(
                self, name, {"settled": "watermark", "synch": "barrier", "declared": "build_spec"}
            )

    @abstractmethod
    def _add_task(self, task: Task, declared: DeclaredOptions, companions: Sequence[Task] = ()) -> None:
        """Add a task, with the tasks that are part of all its runs."""

    @abstractmethod
    def _is_written(self, channel: str) -> bool:
        """Tell whether an earlier declared task writes a channel."""

    def keyed(
        self,
        *,
        state: str,
        by: Key,
        writes: Mapping[str, str],
        partitions: int = 1,
        name: str | None = None,
        channels: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> Callable[[F], F]:
        """Declare a vectorised function over keyed state.

        The function is called as `fn(state, …)`: its first argument is an array of the rows of `state` for the events
        of the batch, its argument annotated `tm.New` the batch, a dict of arrays; those annotated `tm.All` are full
        tables, likewise. It returns a `tidemill.stream.KeyedResult`: the new rows of state, and the rows for each of
        `writes`, which gives their columns. State and outputs become visible together. docs/streams.md has details.
        """

        def declare_task(fn: F) -> F:
            where = SourceLocation(fn.__code__.co_filename, fn.__code__.co_firstlineno)
            reads = parts.parse_reads(fn, dict(channels or {}), {STATE, *(parameters or {})}, where)
            parts.check_keyed_signature(fn, reads, where)
            code = stateful.build_keyed_code(fn, state, by, writes, partitions, where)
            ports = {argument: (channels or {}).get(argument, argument) for argument in writes}
            task = stateful.build_stateful_task(name or fn.__name__, code, reads, ports)
            self._declare_task(replace(task, parameters=dict(parameters or {})), options, where)
            return fn

        return declare_task

    def stateful(
        self,
        name: str,
        make: Callable[..., Any],
        *,
        reads: Mapping[str, Reading],
        states: Mapping[str, StateSchema],
        writes: Mapping[str, str],
        parameters: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> str:
        """Declare a user-defined operator with several kinds of state: the result of `make(**parameters)`.

        It is a `tidemill.stream.StatefulOperator`: it is restored from blocks of each of `states`, runs on batches of
        new rows, and returns rows for each of `writes` and the changed rows of state.
        """
        where = find_caller()
        inputs = [TaskInput(c, c, parts.parse_mode(r, where)) for c, r in reads.items()]
        code = stateful.build_operator_code(name, make, states, writes, where)
        task = stateful.build_stateful_task(name, code, inputs, {w: w for w in writes})
        return self._declare_task(replace(task, parameters=dict(parameters or {})), options, where)

    def window(
        self,
        name: str,
        of: str,
        size: str | Between,
        step: str | None = None,
        *,
        by: Sequence[str] = (),
        timeout: float | None = None,
        delete_used: bool = False,
        at_least: int = 1,
        time: str | None = None,
        sums: Sequence[str] | None = None,
        **options: Unpack[RunOptions],
    ) -> str:
        """Declare windows over the events of a channel; they go to the channel `name`, as rows.

        Events that no further window contains go to `name_expired`, late ones to `name_late`. With `sums` the channel
        has one row for each window instead: the number of events, and the sums of those columns.
        """
        window = Window.from_text(
            size, step, by=by, timeout=timeout, delete_used=delete_used, at_least=at_least, time=time
        )
        code = WindowTaskSpec(window, None if sums is None else tuple(sums))
        return self._declare_task(stateful.build_window_task(name, of, code, self._is_written), options, find_caller())

    def waves(self, name: str, of: str, **options: Unpack[RunOptions]) -> str:
        """Declare the events of a channel, each as the start of a wave: its columns, and its tag in a column `wave`."""
        return self._declare_task(stateful.build_wave_start_task(name, of), options, find_caller())

    def barrier(self, name: str, branches: Sequence[str], **options: Unpack[RunOptions]) -> str:
        """Declare the waves that are complete on all of several channels with tags: one row per wave, its `wave`."""
        return self._declare_task(stateful.build_barrier_task(name, branches, self._is_written), options, find_caller())

    def _declare_task(self, task: Task, options: RunOptions, where: SourceLocation) -> str:
        declared = read_options(RunOptions, options, where)
        self._add_task(replace(task, **declared.task_fields), declared)
        return task.name
