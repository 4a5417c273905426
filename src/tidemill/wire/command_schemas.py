"""Documents that only the command line has."""

from typing import Annotated

from tidemill.wire.account_schemas import TokenListDocument, UserListDocument
from tidemill.wire.document import ResponseDocument, Source
from tidemill.wire.schemas import BlockDocument, RunDocument
from tidemill.wire.server_schemas import FiringListDocument, TriggerListDocument


class AccountsDocument(TokenListDocument, UserListDocument):
    """The users of the API and their tokens."""


class TriggersDocument(FiringListDocument, TriggerListDocument):
    """The triggers of flows and their last firings."""


class RefreshChoiceDocument(ResponseDocument):
    variant: Annotated[str, Source("mode")]
    reason: str


class RequestedRunDocument(ResponseDocument):
    run: RunDocument


class FinishedRunDocument(RequestedRunDocument):
    """A run, its blocks, and the variants that were chosen, by table."""

    blocks: list[BlockDocument]
    choices: dict[str, RefreshChoiceDocument]


class TableSizingDocument(ResponseDocument):
    table: str
    staleness: float
    best: float
    runs: float


class LatenessDocument(ResponseDocument):
    tracks: int
    lateness: float


class TrackSizingDocument(ResponseDocument):
    """The simulated staleness of tables, and their lateness by the number of tracks."""

    tracks: Annotated[int, Source("workload_file.workload.tracks")]
    load: Annotated[float, Source("workload_file.workload.load")]
    busy: Annotated[float, Source("busy_share")]
    tables: list[TableSizingDocument]
    by_tracks: Annotated[list[LatenessDocument], Source(lambda sizing: list(sizing.lateness.items()))]
    events: Annotated[int, Source(lambda sizing: sizing.outcomes[0].events)]
    seeds: Annotated[int, Source(lambda sizing: len(sizing.outcomes))]
