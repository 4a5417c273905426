"""The engine: runs tasks on Spark and writes their results."""

import contextlib
import io
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidemill.errors import BadInput, EngineError, EngineLost, RunFailed, TidemillError
from tidemill.model.analysis import Analysis, AnalysisRequest, Schemas
from tidemill.model.health import EngineHealth, RestartPolicy
from tidemill.model.run import StepReport
from tidemill.model.schema import Schema
from tidemill.model.stateful import Stateful
from tidemill.model.task import Command, Function, Refresh, Sql, Task
from tidemill.model.view import DeltaChain, Snapshot, View, list_blocks
from tidemill.ports.engine import EngineLimits, Log, WriteTarget, get_start_wait
from tidemill.processes.scratch import open_scratch
from tidemill.spark.analysis import analyse_query, infer_outputs
from tidemill.spark.batches import count_rows
from tidemill.spark.block_reader import BlockReader
from tidemill.spark.block_writer import save_and_count, write_frame
from tidemill.spark.commands import CommandRunner
from tidemill.spark.compaction import find_touched_files, write_files, write_rows
from tidemill.spark.local_work import LocalWork
from tidemill.spark.programs import RefreshRun
from tidemill.spark.query_sessions import EngineSessions, run_query
from tidemill.spark.session import (
    FALLBACK_SETTINGS,
    cancel_jobs,
    extract_first_line,
    find_running_session,
    is_optimizer_fault,
    release_session,
    summarize_spark_error,
    tag_jobs,
)
from tidemill.spark.session_loss import forbid_stop
from tidemill.spark.stateful import StatefulTaskRunner
from tidemill.spark.transient_failures import is_transient
from tidemill.spark.types import create_empty_frame, stringify_unsupported

Frames = Mapping[str, DataFrame]
Targets = Mapping[str, WriteTarget]


class SparkEngine:
    """Runs tasks through the DataFrame API.

    The session is started on first use, and stopped at the end unless it was already running before. A lost session is
    replaced on next use, with back-off between repeated restarts.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession],
        locate: Callable[[str], str],
        limits: EngineLimits | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._new_session = session
        self._clock = clock
        self._work = LocalWork(locate, limits or EngineLimits())
        self._sessions: EngineSessions | None = None
        self._fallback_sessions: EngineSessions | None = None  # a second set of sessions with fewer optimizations
        self._started_here = False
        self._lock = threading.RLock()  # held while a session is started or discarded
        self._restart_policy = RestartPolicy()
        self._commands = CommandRunner()
        self._stateful = StatefulTaskRunner(self._work)

    @property
    def spark(self) -> SparkSession:
        return self.sessions.spark

    @property
    def quick_session(self) -> SparkSession:
        return self.sessions.quick_session

    @property
    def sessions(self) -> EngineSessions:
        began = monotonic()
        with self._lock:
            if self._sessions is None:
                self._sessions = self._start_session()
            get_start_wait().seconds += monotonic() - began
            return self._sessions

    def start(self) -> None:
        """Start the session now and run one empty job, so that the next run's time does not include the start."""
        with self._report_errors("starting Spark"):
            self.spark.range(1).collect()

    def report_health(self) -> EngineHealth:
        """Whether there is a session, as far as that is known without a request to it."""
        sessions = self._sessions
        if sessions is not None and sessions.monitor.has_exited() and self._lock.acquire(blocking=False):
            try:
                self._discard_sessions(sessions, "Spark's Java process has exited")
            finally:
                self._lock.release()
        return self._restart_policy.report_health(self._clock())

    def _start_session(self) -> EngineSessions:
        health = self._restart_policy.report_health(self._clock())
        if health.has_given_up:
            raise EngineLost(f"Spark was lost too often in a row, and is not started again: {health.problem}")
        if health.retry_in:
            delay = f"it may be started again in {health.retry_in:.1f} s"
            raise EngineLost(f"Spark was lost, and {delay}: {health.problem}", health.retry_in)
        try:
            self._started_here = find_running_session() is None
            sessions = EngineSessions(self._new_session())
        except EngineError as error:
            if health.problem is not None:
                self._restart_policy.record_loss(str(error), self._clock())
            raise
        self._restart_policy.record_start(self._clock())
        return sessions

    def _discard_sessions(self, sessions: EngineSessions, reason: str) -> None:
        """Drop the sessions; only the first of concurrent callers has an effect."""
        with self._lock:
            if self._sessions is sessions:
                self._sessions = self._fallback_sessions = None
                sessions.monitor.discard_session()
                self._restart_policy.record_loss(reason, self._clock())

    @contextlib.contextmanager
    def _detect_loss(self, activity: str) -> Iterator[None]:
        """Convert any error inside to `EngineLost` if the session in use was lost."""
        before = self._sessions
        try:
            yield
        except EngineError:
            raise
        except Exception as error:
            used = before or self._sessions
            if used is None or not used.monitor.is_lost(error):
                raise
            message = f"{activity}: Spark's session is gone ({summarize_spark_error(error)})"
            self._discard_sessions(used, message)
            raise EngineLost(message, self._restart_policy.report_health(self._clock()).retry_in) from error

    @contextlib.contextmanager
    def _report_errors(self, activity: str) -> Iterator[None]:
        """Convert any error inside to a one-line message that names the activity; the cause stays attached."""
        try:
            with self._detect_loss(activity):
                yield
        except EngineLost:
            raise
        except TidemillError as error:
            error.args = (f"{activity}: {error}",)
            raise
        except Exception as error:
            summary = summarize_spark_error(error)
            if is_transient(error):
                reason = "Spark lost executors, or did not reach them or the store; retry it, or check both"
                raise EngineError(f"{activity}: {reason} ({summary})") from error
            raise RunFailed(f"{activity}: {summary}") from error

    def read_frame(self, view: View) -> DataFrame:
        with self._report_errors("reading"):
            return self._read_frame(view)

    def _read_frame(self, view: View) -> DataFrame:
        return BlockReader(self.spark, self._work).read_view(view)

    def read_rows(self, view: View, limit: int | None = None) -> list[dict[str, Any]]:
        def read_on_spark() -> pa.Table:
            frame = stringify_unsupported(reader.read_view(view))
            return (frame if limit is None else frame.limit(limit)).toArrow()

        with self._report_errors("reading"):
            reader = BlockReader(self.spark, self._work)  # for the driver, too, Spark parses the types of the columns
            table, *_ = self._work.compute_view(
                view, self._work.read_costs, lambda found: found.table[:limit], read_on_spark, limit
            )
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def run_task(
        self, task: Task, inputs: Mapping[str, View], outputs: Targets, *, tag: str, log: Log, now: int
    ) -> Schemas:
        code = task.variant.code
        activity = f"task {task.name} ({task.location})"
        if isinstance(code, Stateful):
            with self._report_errors(activity), forbid_stop(), contextlib.ExitStack() as stack:
                return self._stateful.run(cache(partial(self._tag_session, stack, tag)), task, inputs, outputs, now)
        with self._report_errors(activity), forbid_stop(), tag_jobs(self.spark, tag):
            match code:
                case Refresh():
                    return self._run_query(
                        lambda sessions: RefreshRun(sessions, self._work, code, inputs, outputs, tag, log).run(), log
                    )
                case Sql(query):

                    def run_text(sessions: EngineSessions) -> Schemas:
                        with run_query(sessions, self._work, query, inputs, tag) as result:
                            return {name: write_frame(result, target) for name, target in outputs.items()}

                    return self._run_query(run_text, log)
            frames = {name: self._read_frame(view) for name, view in inputs.items()}
            match code:
                case Function(call):
                    return self._run_function(task, call, frames, outputs, log)
                case Command() as command:
                    return self._run_command(command, frames, outputs, tag, log)

    def analyse_query(self, query: AnalysisRequest) -> Analysis:
        """The columns of a query's result, and why it can only be run in batch; raises `QueryRefused`."""
        with self._detect_loss("analysing a query"), self.sessions.small_queries.acquire_session() as spark:
            return analyse_query(spark, query, self.sessions.monitor.is_lost)

    def infer_outputs(self, task: Task, inputs: Schemas) -> Schemas | None:
        """The columns that a function returns, by output; None if they cannot be inferred."""
        with self._detect_loss("analysing a task"), forbid_stop():
            return infer_outputs(self.quick_session, task, inputs, self.sessions.monitor.is_lost)

    def write_frame(self, frame: Any, target: WriteTarget, *, tag: str) -> Schema:
        if not isinstance(frame, DataFrame):
            raise BadInput(
                f"channel {target.channel}: expected a path, a DataFrame of Spark or pandas, an Arrow table or a list "
                f"of rows, found a {type(frame).__name__}. Nothing was inserted"
            )
        with self._report_errors(f"writing channel {target.channel}"), tag_jobs(self.spark, tag):
            return write_frame(frame, target)

    def write_view(self, view: Snapshot | DeltaChain, directory: str, *, files: int, tag: str, log: Log) -> int:
        def write_on_spark() -> int:
            return write_files(self._read_frame(view), directory, files, count_rows(list_blocks(view)))

        with self._report_errors(f"compacting channel {view.channel}"), tag_jobs(self.spark, tag):
            written, placement, seconds = self._work.compute_view(
                view, self._work.compaction_costs, lambda rows: write_rows(rows, view, directory, files), write_on_spark
            )
        log.record_step(StepReport(view.channel, placement.place, placement.reason, seconds))
        return written

    def find_touched_files(self, view: Snapshot, *, tag: str) -> frozenset[str]:
        with self._report_errors(f"compacting channel {view.channel}"), tag_jobs(self.spark, tag):
            return find_touched_files(self.spark, view, self._work.locate)

    def cancel_jobs(self, tag: str) -> None:
        self._commands.stop(tag)
        for sessions in filter(None, (self._sessions, self._fallback_sessions)):
            try:
                for session in sessions.all_sessions:
                    cancel_jobs(session, tag)
            except Exception as error:
                if not sessions.monitor.is_lost(error):  # else nothing is running any more
                    raise

    def stop(self) -> None:
        if self._sessions is not None and self._sessions.monitor.has_exited():
            self._sessions.monitor.discard_session()
            self._sessions = self._fallback_sessions = None
        for sessions in filter(None, (self._sessions, self._fallback_sessions)):
            for session in sessions.query_sessions:
                release_session(session)
        if self._sessions is not None and self._started_here:
            self._sessions.spark.stop()
        self._sessions = self._fallback_sessions = None
        self._stateful.stop()
        self._work.close()

    def _tag_session(self, stack: contextlib.ExitStack, tag: str) -> SparkSession:
        """The session for small work, tagged until the stack is closed."""
        stack.enter_context(tag_jobs(self.quick_session, tag))
        return self.quick_session

    def _run_function(
        self, task: Task, call: Callable[..., Any], frames: Frames, outputs: Targets, log: Log
    ) -> Schemas:
        with contextlib.redirect_stdout(_LogStream(log)):
            result = call(**frames, **task.parameters)
            results = result if isinstance(result, Mapping) else dict.fromkeys(list(outputs)[:1], result)
            _check_results(results, outputs)
            return {name: write_frame(results[name], target) for name, target in outputs.items()}

    def _run_query(self, run: Callable[[EngineSessions], Schemas], log: Log) -> Schemas:
        """Run a query; if Spark's optimizer fails on it, retry with fewer optimizations."""
        try:
            return run(self.sessions)
        except Exception as error:
            if not is_optimizer_fault(error):
                raise
            log.write(f"Spark's optimizer failed; retrying with fewer optimizations ({extract_first_line(error)})\n")
            self._fallback_sessions = self._fallback_sessions or EngineSessions(self.spark, FALLBACK_SETTINGS)
            return run(self._fallback_sessions)

    def _run_command(self, command: Command, frames: Frames, outputs: Targets, tag: str, log: Log) -> Schemas:
        workdir = Path(tempfile.mkdtemp(dir=open_scratch().path))
        try:
            for name, frame in frames.items():
                _write_input(frame, workdir / name)
            for name in outputs:
                (workdir / name).mkdir(exist_ok=True)
            paths = {name: str(workdir / name) for name in [*frames, *outputs]}
            self._commands.run(command, paths, tag=tag, log=log, workdir=workdir)
            return {name: write_frame(self._read_output(workdir / name, t), t) for name, t in outputs.items()}
        finally:
            shutil.rmtree(workdir, ignore_errors=True)

    def _read_output(self, directory: Path, target: WriteTarget) -> DataFrame:
        """The files that a program wrote to an output directory: Parquet, CSV with a header, or JSON lines."""
        suffixes = {f.suffix for f in directory.iterdir() if not f.name.startswith((".", "_"))}
        readers = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
        formats = {readers[s] for s in suffixes if s in readers}
        if suffixes - readers.keys() or len(formats) > 1:
            expected = "expected .parquet, .csv or .jsonl files"
            raise RunFailed(f"output {target.channel}: {expected}, found {sorted(suffixes)}")
        reader = self.spark.read
        if target.schema is not None and not target.is_schema_inferred:
            reader = reader.schema(str(target.schema))
        elif formats and formats != {"parquet"}:
            raise RunFailed(f"output {target.channel}: declare its schema, or let the program write Parquet")
        if not formats and target.schema is not None:
            return create_empty_frame(self.spark, str(target.schema))
        return reader.format(formats.pop()).options(header="true", mode="FAILFAST").load(str(directory))


def _write_input(frame: DataFrame, directory: Path) -> None:
    """Write an input for a program on this machine, and check that the files are visible here."""
    written = save_and_count(frame, str(directory))
    visible = sum(pq.read_metadata(file).num_rows for file in directory.glob("*.parquet"))
    if visible != written:
        raise RunFailed(
            f"{written} rows were written to {directory} for the program, but {visible} are found there: Spark's "
            "executors do not write where this process reads; run programs where Spark is local, or let TMPDIR be "
            "a directory that all machines share"
        )


def _check_results(results: Mapping[str, Any], outputs: Mapping[str, WriteTarget]) -> None:
    if set(results) != set(outputs):
        raise RunFailed(f"expected the outputs {sorted(outputs)}, the task returned {sorted(map(str, results))}")
    for name, result in results.items():
        if not isinstance(result, DataFrame):
            raise RunFailed(f"output {name!r}: expected a DataFrame, the task returned {type(result).__name__}")


class _LogStream(io.TextIOBase):
    """Writes a task's standard output to the run's log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def write(self, text: str) -> int:
        self._log.write(text)
        return len(text)
