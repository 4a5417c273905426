"""What the runtime needs of the catalog for one-shot workflows. Every change is one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import Claim
from tidemill.model.submission import Errand, ForgottenPast, Handed, Placement, Product, StoredDataset, Submission
from tidemill.model.usage import Past, Period
from tidemill.retention.usage_history import Tally


class Ledger(Protocol):
    """Submissions and datasets."""

    def descriptions(self, identities: Iterable[Identity]) -> dict[Identity, Json]:
        """The descriptions that are recorded under these identities."""

    def generations(self) -> dict[Identity, int]:
        """The newest generation of each plain identity that was ever forced."""

    def submit(self, handed: Handed) -> int:
        """Take in a workflow: decide what runs, and make those runs. Returns the submission's number."""

    def submission(self, number: int) -> Submission: ...
    def submissions(self, *, before: int | None = None, limit: int = 20) -> list[Submission]: ...
    def past(self, wanted: Period) -> list[Past]:
        """Every action submitted and every task refreshed within a period, as far as it is remembered."""

    def tallies(self, wanted: Period) -> list[Tally]:
        """What is known, by the hour, of what was forgotten."""

    def graphs(self, after: int) -> list[tuple[int, str, Identity]]:
        """Number, workflow and identity of every action of later submissions, parents before their children."""

    def forget(self, age: float) -> ForgottenPast:
        """Forget submissions and events that are older than so many seconds and that nothing needs any more."""

    def errand(self, run: int) -> Errand:
        """What the run of an action is to do."""

    def made(self, claim: Claim, product: Product) -> None:
        """Commit the run of an action: its dataset can be read, and those who waited for it are woken."""

    def lost(self, identity: Identity) -> None:
        """A dataset's files are gone or damaged: whoever wants it next makes it again."""

    def to_place(self, submission: int | None = None) -> list[Placement]:
        """Copies that are wanted of what is there."""

    def placed(self, placement: Placement) -> None: ...
    def datasets(self) -> list[StoredDataset]: ...
    def held(self) -> dict[str, int]:
        """Bytes that datasets hold, by workflow: space is free only when the files are gone."""

    def evict(self, chosen: Iterable[Identity]) -> list[Identity]:
        """Choose datasets to go; what is not stored, or claimed, is left. Returns those that go."""

    def drop(self, identity: Identity) -> None:
        """Its user deletes a leaf."""

    def pin(self, identity: Identity, *, pinned: bool) -> None:
        """Keep a dataset from being evicted, or no longer; what was chosen to go is rescued."""

    def going(self) -> list[Identity]:
        """Datasets that were chosen to go and are not gone."""

    def begin_deleting(self, identity: Identity) -> list[str] | None:
        """From now on nobody can read it; its files. None: it was rescued, or is gone."""

    def deleted(self, identity: Identity) -> None: ...
