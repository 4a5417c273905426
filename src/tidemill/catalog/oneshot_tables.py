"""The tables of one-shot workflows: submissions, actions and datasets."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, Table, Text, false

from tidemill.catalog.tables import Id, metadata
from tidemill.catalog.types import SchemaText

submissions = Table(
    "submissions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("workflow", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("document", JSON, nullable=False),  # as it was submitted
    Index("submissions_workflow", "workflow", "id"),
    Index("submissions_at", "at"),
)

datasets = Table(
    "datasets",
    metadata,
    Column("identity", Text, primary_key=True),
    Column(
        "unforced_identity", Text, nullable=False
    ),  # the identity without generations, as if nothing had been forced
    Column("generation", Integer, nullable=False),
    Column("description", JSON, nullable=False),
    Column("workflow", Text, nullable=False),  # the workflow whose action first requested it, under this name
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),  # shared by datasets that are produced in the same way
    Column("parents", JSON, nullable=False),  # their identities, in port order
    Column("state", Text, nullable=False),
    Column("version", BigInteger, nullable=False, default=0),
    Column("claims", Integer, nullable=False, default=0),
    Column("is_leaf", Boolean, nullable=False),  # whether it becomes a leaf
    Column("pinned", Boolean, nullable=False, default=False, server_default=false()),  # never evicted
    Column("run_id", Id, ForeignKey("runs.id")),  # the run that produces it, or produced it last
    Column("schema", SchemaText),
    Column("files", JSON, nullable=False, default=list),  # path, rows and bytes of each
    Column("rows", BigInteger, nullable=False, default=0),
    Column("bytes", BigInteger, nullable=False, default=0),
    Column("seconds", Double, nullable=False, default=0.0),  # of the last computation
    Column("created", Double, nullable=False),
    Column("computed_at", Double),  # time of the last computation
    Column("used_at", Double),  # time of the last read or request
    Index("datasets_unforced_identity", "unforced_identity", "generation"),
    Index("datasets_state", "state"),
    Index("datasets_run", "run_id"),
)

actions = Table(  # of submissions: the requested datasets, and the decisions to reuse or compute them
    "actions",
    metadata,
    Column("submission_id", Id, ForeignKey("submissions.id"), primary_key=True, autoincrement=False),
    Column("key", Text, primary_key=True),  # its id in the workflow
    Column("ordinal", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("identity", Text, ForeignKey("datasets.identity"), nullable=False),
    Column("verdict", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("saved_seconds", Double, nullable=False),  # seconds of computation saved by reuse
    Column("path", Text),  # the user's path for a copy
    Column("copied_at", Double),  # when the copy was made
    Column("run_id", Id, ForeignKey("runs.id")),  # the producing run; NULL if the dataset existed or is not needed
    Index("actions_identity", "identity"),
    Index("actions_run", "run_id"),
)

tallies = Table(  # hourly totals of expired history
    "tallies",
    metadata,
    Column("begin", Double, primary_key=True),
    Column("user", Text, primary_key=True),  # empty: not submitted by a user
    Column("workflow", Text, primary_key=True),
    Column("task", Text, primary_key=True),  # empty: of submissions
    *(Column(name, BigInteger, nullable=False) for name in ("submissions", "actions", "computed", "hits")),
    *(Column(name, BigInteger, nullable=False) for name in ("refreshes", "failed", "bytes")),
    *(Column(name, Double, nullable=False) for name in ("seconds", "saved_seconds")),
)

run_inputs = Table(  # the inputs of the runs of actions
    "run_inputs",
    metadata,
    Column("run_id", Id, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("identity", Text, ForeignKey("datasets.identity"), primary_key=True),
    Column("claimed", Boolean, nullable=False),  # false: it is not yet available
    Index("run_inputs_identity", "identity"),
)
