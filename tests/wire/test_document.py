"""Documents are built from values of the domain, and read back from their JSON."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import ValidationError

from tidemill.model.provenance import Provenance
from tidemill.model.run import Run, RunKind, RunState
from tidemill.model.trigger import IntervalTrigger
from tidemill.ports.records import RegisteredTrigger, TriggerFiring
from tidemill.wire import schemas, server_schemas
from tidemill.wire.document import ProvenanceField, ResponseDocument

RUN = Run(7, RunKind.FLOW, "report", RunState.FINISHED, 1, 3, created=1.0, started=1.5, finished=2.74999)


def test_fields_are_read_from_attributes() -> None:
    document = schemas.RunDocument.model_validate(RUN)
    assert (document.id, document.kind, document.state) == (7, "flow", "finished")
    assert document.created == "1970-01-01T00:00:01.000000Z"
    assert document.seconds == 1.25
    assert "fencing_token" not in document.to_json()


def test_a_source_names_another_attribute() -> None:
    leaf = IntervalTrigger(60.0)
    trigger = RegisteredTrigger(1, "report", 2, leaf, 3.0, None, 0, 0, 0, None, paused=False)
    document = server_schemas.TriggerDocument.model_validate(trigger).to_json()
    assert (document["trigger"], document["condition"]["kind"]) == (2, "every")
    assert (document["due"], document["waiting_since"]) == ("1970-01-01T00:00:03.000000Z", None)


def test_nested_values_are_converted() -> None:
    firing = TriggerFiring(1, 2.0, "report", IntervalTrigger(60.0), 0, 7)
    document = server_schemas.FiringListDocument.build(firings=(firing,))
    assert document.firings[0].trigger == {"kind": "every", "seconds": 60.0}
    curve = schemas.StalenessCurveDocument.build(table="t", points=[(1.0, 2.00049)], integral=0.0)
    assert curve.points[0].to_json() == {"at": "1970-01-01T00:00:01.000000Z", "seconds": 2.0}


def test_a_document_is_read_back_from_its_json() -> None:
    document = schemas.RunDocument.model_validate(RUN)
    text = document.model_dump_json(by_alias=True)
    assert schemas.RunDocument.model_validate_json(text) == document
    newer = schemas.RunDocument.model_validate(document.to_json() | {"added_later": 1})
    assert newer.to_json()["added_later"] == 1


@pytest.mark.parametrize("text", ["[]", "7", '"run"', "null", '{"id": 7}'])
def test_other_json_is_rejected(text: str) -> None:
    with pytest.raises(ValidationError):
        schemas.RunDocument.model_validate_json(text)


def test_provenance_lists_versions_by_pathway() -> None:
    @dataclass(frozen=True)
    class Value:
        provenance: Provenance

    class Document(ResponseDocument):
        provenance: ProvenanceField

    value = Value(Provenance({("orders", "report"): frozenset({2, 1})}))
    assert list(Document.model_validate(value).to_json()["provenance"].values()) == [[1, 2]]
