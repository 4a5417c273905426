"""The base of all documents: they are declared once, and built from values of the domain by their declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tidemill.model import trigger
from tidemill.model.change import Updates
from tidemill.model.codec import updates_to_json
from tidemill.model.provenance import Provenance
from tidemill.model.renamed import find_renamed_key
from tidemill.model.timestamps import format_iso

Reader = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Source:
    """Marks a field that is not read from the attribute of its name, but from this path, or by this function."""

    origin: str | Reader

    @property
    def reader(self) -> Reader:
        return attrgetter(self.origin) if isinstance(self.origin, str) else self.origin


class ResponseDocument(BaseModel):
    """A document of the API and of `--json`.

    It is validated from its JSON, from a dataclass (each field by its attribute, or its `Source`) or from a tuple of
    its fields. Unknown fields are kept, so that a client may be older than its server.
    """

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _read_value(cls, value: Any) -> Any:
        if is_dataclass(value):
            return {name: read(value) for name, read in _list_readers(cls).items()}
        return dict(zip(cls.model_fields, value, strict=True)) if isinstance(value, tuple) else value

    @classmethod
    def build(cls, **fields: Any) -> Self:
        """The document with these fields, whose values may be values of the domain."""
        return cls.model_validate(fields)

    @classmethod
    def extend(cls, document: ResponseDocument, **fields: Any) -> Self:
        """The document that has the fields of another one, and these."""
        return cls.model_validate(dict(document) | fields)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)


@cache
def _list_readers(document: type[ResponseDocument]) -> dict[str, Reader]:
    """The function that reads each field from a dataclass."""
    names = {name: field.alias or name for name, field in document.model_fields.items()}
    sources = {n: s for n, f in document.model_fields.items() for s in f.metadata if isinstance(s, Source)}
    return {alias: sources[n].reader if n in sources else attrgetter(alias) for n, alias in names.items()}


class RequestDocument(BaseModel):
    """The body of a request. Unknown fields are rejected; those of earlier releases with their new name."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    renamed: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _reject_renamed(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and (problem := find_renamed_key(data, cls.renamed)) is not None:
            raise ValueError(problem)
        return data


def _convert(kind: Any, convert: Reader) -> BeforeValidator:
    """A validator that converts values of a type, and passes on others: JSON, which was converted before."""
    return BeforeValidator(lambda value: convert(value) if isinstance(value, kind) else value)


_DATE_TIME = Field(json_schema_extra={"format": "date-time"})

Timestamp = Annotated[str, _convert((int, float), format_iso), _DATE_TIME]
"""ISO 8601 in UTC; from seconds since the epoch."""

VersionTimestamp = Annotated[str, _convert(int, lambda version: format_iso(version / 1_000_000)), _DATE_TIME]
"""The same, from a version."""

Seconds = Annotated[float, AfterValidator(lambda value: round(value, 3))]

ProvenanceField = Annotated[dict[str, list[int]], _convert(Provenance, Provenance.to_json)]
"""By pathway, the versions reflected."""

UpdatesField = Annotated[dict[str, Any], _convert(Updates, updates_to_json)]

TriggerField = Annotated[dict[str, Any], _convert(trigger.Trigger, trigger.to_json)]
