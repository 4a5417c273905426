"""The engine: runs tasks on Spark and writes what they return."""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from tidemill.errors import RunFailed, TidemillError
from tidemill.model.schema import Schema
from tidemill.model.stateful import Stateful
from tidemill.model.task import Command, Function, Refresh, Sql, Task
from tidemill.model.view import Chain, Snapshot, View, blocks_of
from tidemill.ports import Log, Target
from tidemill.spark import local
from tidemill.spark.commands import Commands
from tidemill.spark.compaction import touched, write_files
from tidemill.spark.programs import Sessions, refresh
from tidemill.spark.queries import point_tables_at, without_idle_names
from tidemill.spark.reading import Reader
from tidemill.spark.session import CAREFUL, QUICK, beside, cancel, first_line, is_spoilt, running, spread, tagged
from tidemill.spark.stateful import StatefulTasks
from tidemill.spark.writing import fresh, write

Frames = Mapping[str, DataFrame]


class _Careful:
    """Sessions beside an engine's in which Spark optimises less."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = beside(spark, CAREFUL)
        self.quick = beside(spark, {**QUICK, **CAREFUL})


class SparkEngine:
    """Runs tasks through the DataFrame API.

    The session is started when it is first needed, and stopped at the end unless somebody else had started it.
    """

    def __init__(self, session: Callable[[], SparkSession], locate: Callable[[str], str]) -> None:
        self._new_session = session
        self._locate = locate
        self._session: SparkSession | None = None
        self._quick: SparkSession | None = None
        self._careful: _Careful | None = None
        self._started_here = False
        self._commands = Commands()
        self._stateful = StatefulTasks(locate)

    @property
    def spark(self) -> SparkSession:
        if self._session is None:
            self._started_here = running() is None
            self._session = self._new_session()
        return self._session

    @property
    def quick(self) -> SparkSession:
        """The session for work on small changes."""
        if self._quick is None:
            self._quick = beside(self.spark, QUICK)
        return self._quick

    def start(self) -> None:
        """Start the session now and run one empty job, so that what comes next is not charged for it."""
        self.spark.range(1).collect()

    def frame(self, view: View) -> DataFrame:
        return Reader(self.spark, self._locate).frame(view)

    def rows(self, view: View, limit: int | None = None) -> list[dict[str, Any]]:
        frame = self.frame(view)
        with _told("reading"):
            table = (frame if limit is None else frame.limit(limit)).toArrow()
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def invoke(
        self, task: Task, inputs: Mapping[str, View], outputs: Mapping[str, Target], *, tag: str, log: Log, now: int
    ) -> Mapping[str, Schema]:
        code = task.variant.code
        if isinstance(code, Stateful):
            with contextlib.ExitStack() as under, _told(f"task {task.name} ({task.location})"):
                return self._stateful.run(cache(partial(self._under, under, tag)), task, inputs, outputs, now)
        with tagged(self.spark, tag), _told(f"task {task.name} ({task.location})"):
            match code:
                case Refresh():
                    return self._query(lambda of: refresh(of, self._locate, code, inputs, outputs, tag), log)
                case Sql(query):
                    return self._query(lambda of: self._answer(of, query, inputs, outputs), log)
            frames = {name: self.frame(view) for name, view in inputs.items()}
            match code:
                case Function(call):
                    return self._call(task, call, frames, outputs, log)
                case Command() as command:
                    return self._command(command, frames, outputs, tag, log)

    def write(self, frame: DataFrame, target: Target, *, tag: str) -> Schema:
        with tagged(self.spark, tag), _told(f"writing channel {target.channel}"):
            return write(frame, target)

    def write_view(self, view: Snapshot | Chain, directory: str, *, files: int, tag: str) -> None:
        with tagged(self.spark, tag), _told(f"compacting channel {view.channel}"):
            if local.few(blocks_of(view), local.FEW) and directory.startswith("/"):
                spread(self.quick, over=1)
                rows = Reader(self.quick, self._locate).frame(view)
                local.write(rows.toArrow().columns, rows.schema, Path(fresh(directory)))
            else:
                write_files(self.frame(view), directory, files, sum(b.rows for b in blocks_of(view)))

    def touched(self, view: Snapshot, *, tag: str) -> frozenset[str]:
        with tagged(self.spark, tag), _told(f"compacting channel {view.channel}"):
            return touched(self.spark, view, self._locate)

    def cancel(self, tag: str) -> None:
        self._commands.stop(tag)
        if self._session is not None:
            cancel(self._session, tag)

    def stop(self) -> None:
        if self._session is not None and self._started_here:
            self._session.stop()
        self._session = self._quick = self._careful = None
        self._stateful.stop()

    def _under(self, stack: contextlib.ExitStack, tag: str) -> SparkSession:
        """The session for small work, under a tag for as long as the stack stands."""
        stack.enter_context(tagged(self.quick, tag))
        return self.quick

    def _call(
        self, task: Task, call: Callable[..., Any], frames: Frames, outputs: Mapping[str, Target], log: Log
    ) -> Mapping[str, Schema]:
        with contextlib.redirect_stdout(_Lines(log)):
            result = call(**frames, **task.parameters)
            results = result if isinstance(result, Mapping) else dict.fromkeys(list(outputs)[:1], result)
            _check_results(results, outputs)
            return {name: write(results[name], target) for name, target in outputs.items()}

    def _answer(
        self, sessions: Sessions, query: str, inputs: Mapping[str, View], outputs: Mapping[str, Target]
    ) -> Mapping[str, Schema]:
        """Run a query's text, as it stands in the first try, and write what it gives."""
        text = query if sessions is self else without_idle_names(query)
        reader = Reader(sessions.spark, self._locate)
        views = {name: f"tidemill_{uuid4().hex}" for name in inputs}
        try:
            for name, view in inputs.items():
                reader.frame(view).createOrReplaceTempView(views[name])
            result = sessions.spark.sql(point_tables_at(text, views))
            return {name: write(result, target) for name, target in outputs.items()}
        finally:
            for name in views.values():
                sessions.spark.catalog.dropTempView(name)

    def _query(self, run: Callable[[Sessions], Mapping[str, Schema]], log: Log) -> Mapping[str, Schema]:
        """Run a query; if Spark's optimizer spoils it, once more with less of that."""
        try:
            return run(self)
        except Exception as error:
            if not is_spoilt(error):
                raise
            log.write(f"Spark's optimizer spoils this query; again with less of it ({first_line(error)})\n")
            self._careful = self._careful or _Careful(self.spark)
            return run(self._careful)

    def _command(
        self, command: Command, frames: Frames, outputs: Mapping[str, Target], tag: str, log: Log
    ) -> Mapping[str, Schema]:
        workdir = Path(tempfile.mkdtemp(prefix="tidemill-command-"))
        try:
            for name, frame in frames.items():
                frame.write.parquet(str(workdir / name))
            for name in outputs:
                (workdir / name).mkdir(exist_ok=True)
            paths = {name: str(workdir / name) for name in [*frames, *outputs]}
            self._commands.run(command, paths, tag=tag, log=log, workdir=workdir)
            return {name: write(self._left_by(workdir / name, t), t) for name, t in outputs.items()}
        finally:
            shutil.rmtree(workdir, ignore_errors=True)

    def _left_by(self, directory: Path, target: Target) -> DataFrame:
        """What a program left in an output directory: Parquet, CSV with a header, or JSON lines."""
        suffixes = {f.suffix for f in directory.iterdir() if not f.name.startswith((".", "_"))}
        readers = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
        formats = {readers[s] for s in suffixes if s in readers}
        if suffixes - readers.keys() or len(formats) > 1:
            raise RunFailed(
                f"output {target.channel}: expected .parquet, .csv or .jsonl files, found {sorted(suffixes)}"
            )
        reader = self.spark.read
        if target.schema is not None:
            reader = reader.schema(str(target.schema))
        elif formats != {"parquet"}:
            raise RunFailed(f"output {target.channel}: declare its schema, or let the program write Parquet")
        if not formats:
            return self.spark.createDataFrame([], str(target.schema))
        return reader.format(formats.pop()).options(header="true", mode="FAILFAST").load(str(directory))


def _check_results(results: Mapping[str, Any], outputs: Mapping[str, Target]) -> None:
    if set(results) != set(outputs):
        raise RunFailed(f"expected the outputs {sorted(outputs)}, the task returned {sorted(map(str, results))}")
    for name, result in results.items():
        if not isinstance(result, DataFrame):
            raise RunFailed(f"output {name!r}: expected a DataFrame, the task returned {type(result).__name__}")


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Whatever goes wrong inside is said in one line, with what was being done; the cause stays attached."""
    try:
        yield
    except TidemillError as error:
        error.args = (f"{what}: {error}",)
        raise
    except Exception as error:
        raise RunFailed(f"{what}: {_said(error)}") from error


def _said(error: Exception) -> str:
    """Spark's first line is enough; of Python's own errors the place is wanted too."""
    if type(error).__module__.partition(".")[0] in ("pyspark", "py4j"):
        return first_line(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"


class _Lines(io.TextIOBase):
    """Gives what a task prints to the run's log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def write(self, text: str) -> int:
        self._log.write(text)
        return len(text)
