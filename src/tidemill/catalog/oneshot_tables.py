"""The tables of one-shot workflows: what was submitted, and the datasets that came of it."""

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
    Column("plain", Text, nullable=False),  # the identity that it would have if nothing had ever been forced
    Column("generation", Integer, nullable=False),
    Column("description", JSON, nullable=False),
    Column("workflow", Text, nullable=False),  # whose action first wanted it, under this name
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),  # what it has in common with others that are made alike
    Column("parents", JSON, nullable=False),  # their identities, in port order
    Column("state", Text, nullable=False),
    Column("version", BigInteger, nullable=False, default=0),
    Column("claims", Integer, nullable=False, default=0),
    Column("keep", Boolean, nullable=False),  # as what it is to be made: a leaf?
    Column("pinned", Boolean, nullable=False, default=False, server_default=false()),  # never evicted
    Column("run_id", Id, ForeignKey("runs.id")),  # that makes it, or made it last
    Column("schema", SchemaText),
    Column("files", JSON, nullable=False, default=list),  # path, rows and bytes of each
    Column("rows", BigInteger, nullable=False, default=0),
    Column("bytes", BigInteger, nullable=False, default=0),
    Column("seconds", Double, nullable=False, default=0.0),  # that it last took to make
    Column("created", Double, nullable=False),
    Column("made", Double),  # when it last was
    Column("used", Double),  # when somebody last read it, or wanted it
    Index("datasets_plain", "plain", "generation"),
    Index("datasets_state", "state"),
    Index("datasets_run", "run_id"),
)

actions = Table(  # of submissions; who asked for which dataset, and what was found
    "actions",
    metadata,
    Column("submission_id", Id, ForeignKey("submissions.id"), primary_key=True, autoincrement=False),
    Column("key", Text, primary_key=True),  # its id in the workflow
    Column("ordinal", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("identity", Text, ForeignKey("datasets.identity"), nullable=False),
    Column("verdict", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("saved", Double, nullable=False),  # seconds that need not be computed
    Column("path", Text),  # where its user wants a copy
    Column("placed", Double),  # when it was put there
    Column("run_id", Id, ForeignKey("runs.id")),  # that makes the dataset; none if it was there, or is not needed
    Index("actions_identity", "identity"),
    Index("actions_run", "run_id"),
)

tallies = Table(  # what is still known of hours that were forgotten
    "tallies",
    metadata,
    Column("begin", Double, primary_key=True),
    Column("user", Text, primary_key=True),  # empty: nobody submitted it
    Column("workflow", Text, primary_key=True),
    Column("task", Text, primary_key=True),  # empty: of submissions
    *(Column(name, BigInteger, nullable=False) for name in ("submissions", "actions", "computed", "hits")),
    *(Column(name, BigInteger, nullable=False) for name in ("refreshes", "failed", "bytes")),
    *(Column(name, Double, nullable=False) for name in ("seconds", "saved")),
)

needs = Table(  # what the run of an action will read
    "needs",
    metadata,
    Column("run_id", Id, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("identity", Text, ForeignKey("datasets.identity"), primary_key=True),
    Column("claimed", Boolean, nullable=False),  # false: it is still awaited
    Index("needs_identity", "identity"),
)
