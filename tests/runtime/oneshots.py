"""One-shot workflows on a real catalog and real files, with an engine that needs no Spark and counts its calls.

The output of an action is a digest of its query and of its parents' outputs, so a test can tell from a result whether
it is what a run without any reuse would have written.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.empty_engine import EmptyEngine, Inputs, Outputs, Schemas

from tidemill.api.documents.tasks import SourceResolver
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.errors import RunFailed, WorkflowError
from tidemill.model.identity import compute_identity
from tidemill.model.run import RunKind
from tidemill.model.schema import Schema
from tidemill.model.states import DatasetState
from tidemill.model.submission import StoredDataset, Submission
from tidemill.model.task import Sql, Task
from tidemill.model.view import Snapshot, View
from tidemill.ports.engine import Log
from tidemill.ports.storage import BlockStore
from tidemill.runtime.oneshot.service import OneShotService
from tidemill.runtime.oneshot.storage_report import StorageBudgets
from tidemill.runtime.runs.execution import Executor
from tidemill.storage import LocalDatasetCopier, open_store

SCHEMA = Schema.from_ddl("x string")
PARTS = 2
"""Files of a dataset, so that it can be deleted in part."""
NO_BUDGETS = StorageBudgets()
Json = dict[str, Any]


def action(key: int | str, column: str, *parents: int | str, **options: Any) -> Json:
    """An action that reads its parents as p1, p2, …, and is called by its column."""
    read = [{"id": parent, "as": f"p{n}"} for n, parent in enumerate(parents, start=1)]
    query = f"SELECT {column}"
    return {"id": key, "name": f"a{key}", "type": "spark-sql", "query": query, "parentActions": read} | options


def workflow(*actions: Json, name: str = "words") -> Json:
    return {"name": name, "startActionId": actions[0]["id"], "endActionId": actions[-1]["id"], "actions": [*actions]}


def chain(*queries: str, **options: Any) -> Json:
    """Actions 1, 2, …, each derived from the previous one."""
    actions = [action(n, q, *([n - 1] if n > 1 else [])) for n, q in enumerate(queries, start=1)]
    return workflow(*actions, **options)


def compute_expected(document: Json, key: int | str) -> str:
    """The output of an action if no dataset is ever reused."""
    by_id = {a["id"]: a for a in document["actions"]}
    return digest(by_id[key]["query"], [compute_expected(document, p["id"]) for p in by_id[key]["parentActions"]])


def digest(query: str, inputs: Iterable[str]) -> str:
    return compute_identity(query, list(inputs))[:16]


@dataclass
class DigestEngine(EmptyEngine):
    """Writes digests. An action in `failing` fails that many times."""

    locate: Callable[[str], str]
    calls: list[str] = field(default_factory=list)
    failing: dict[str, int] = field(default_factory=dict)
    before: Callable[[str], None] = lambda _: None

    def execute_task(self, task: Task, inputs: Inputs, outputs: Outputs, log: Log) -> Schemas:
        code = task.variant.code
        assert isinstance(code, Sql)
        column = code.query.removeprefix("SELECT ")
        self.calls.append(column)
        self.before(column)
        if self.failing.get(column, 0) > 0:
            self.failing[column] -= 1
            raise RunFailed(f"{column}: no such column")
        output = digest(code.query, [self.read(view) for _, view in sorted(inputs.items())])
        for part in range(PARTS):
            pq.write_table(pa.table({"x": [output]}), Path(outputs["output"].directory) / f"{part}.parquet")
        return {"output": SCHEMA}

    def read(self, view: View) -> str:
        assert isinstance(view, Snapshot)
        assert view.base is not None
        try:
            parts = [self.read_file(self.locate(file.path)) for file in view.base.files]
        except OSError as error:
            raise RunFailed(f"{view.channel} cannot be read") from error
        assert len(parts) == PARTS
        (content,) = set(parts)
        return content

    def read_file(self, path: str) -> str:
        (row,) = pq.read_table(path).to_pylist()
        return str(row["x"])


def reject_source(name: str) -> Any:
    raise WorkflowError([f"there is no {name}"])


@dataclass(frozen=True)
class Bench:
    """One process's access to a catalog and to the files under a root."""

    catalog: SqlCatalog
    store: BlockStore
    engine: DigestEngine
    shop: OneShotService

    def submit(self, document: Json, user: str = "ada") -> Submission:
        return self.shop.submit_workflow(json.dumps(document), user)

    def run(self, document: Json) -> Submission:
        return self.shop.complete_submission(self.submit(document).id)

    def work(self, limit: int = 1000) -> int:
        """Attempt claimable runs as servers do, up to a limit; returns the number of attempts."""
        for attempts in range(limit):
            ready = [r for r in self.catalog.runs.list_runnable() if r.kind is RunKind.ACTION]
            if not ready:
                return attempts
            self.shop.execute_run(ready[0])
        return limit

    def dataset(self, submission: Submission, key: int | str) -> StoredDataset:
        identity = next(a.identity for a in submission.actions if a.key == str(key))
        return next(d for d in self.catalog.datasets.list() if d.identity == identity)

    def state(self, submission: Submission, key: int | str) -> DatasetState:
        return self.dataset(submission, key).state

    def content(self, submission: Submission, key: int | str) -> str:
        dataset = self.dataset(submission, key)
        assert dataset.is_readable, f"{key} is {dataset.state}"
        return self.engine.read(dataset.to_snapshot("x"))

    def check(self, document: Json, submission: Submission) -> None:
        """Check that readable datasets equal those of a run without reuse, and that the end is readable."""
        for node in document["actions"]:
            if self.dataset(submission, node["id"]).is_readable:
                assert self.content(submission, node["id"]) == compute_expected(document, node["id"])
        assert self.dataset(submission, document["endActionId"]).is_readable

    def find_inconsistencies(self) -> set[str]:
        """Unreferenced files and missing referenced files."""
        return set(self.store.list_all_files()) ^ self.catalog.files.list_referenced()


@contextmanager
def bench(
    url: str, root: Path, *, later: float = 0.0, owner: str = "test", budgets: StorageBudgets = NO_BUDGETS
) -> Iterator[Bench]:
    catalog = open_catalog(url, clock=lambda: time.time() + later)
    store = open_store(str(root / "blocks"))
    engine = DigestEngine(store.locate_file)
    executor = Executor(catalog, store, engine, owner, sleep=lambda _: None)  # type: ignore[arg-type]
    place_copy = LocalDatasetCopier(store.locate_file, catalog.datasets.list_copies, root).place_copy
    sources = SourceResolver(reject_source, reject_source)
    shop = OneShotService(executor, sources, {}, lambda name: name, place_copy, budgets)
    try:
        yield Bench(catalog, store, engine, shop)
    finally:
        catalog.close()


def verdicts(submission: Submission) -> dict[str, str]:
    return {a.key: a.verdict for a in submission.actions}
