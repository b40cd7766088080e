from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.payload_schema import defaults_of, expand_schema, payload_faults

FULL = {
    "type": "object",
    "properties": {"url": {"type": "string"}, "depth": {"type": "integer", "default": 2, "minimum": 1}},
    "required": ["url"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("schema", [FULL, {"required": ["url"]}, {"$ref": "#/$defs/it"}, {"anyOf": [{}]}])
def test_a_json_schema_is_taken_as_it_is(schema: dict[str, Any]) -> None:
    assert expand_schema(schema) == schema


def test_the_short_form_means_an_object_whose_fields_may_be_left_out() -> None:
    short = {"url": "string", "depth": {"type": "integer", "default": 2}, "note": "whatever you like"}
    assert expand_schema(short) == {
        "type": "object",
        "properties": {"url": {"type": "string"}, "depth": {"type": "integer", "default": 2}, "note": {}},
    }
    assert payload_faults(short, {}) == []
    assert payload_faults(short, {"note": 5, "other": True}) == []
    assert payload_faults(short, {"url": 5}) == ["payload.url: 5 is not of type 'string'"]


def test_a_field_that_is_called_type_is_a_field() -> None:
    assert payload_faults({"type": "string", "name": "string"}, {"type": "bird", "name": "wren"}) == []


def test_an_empty_schema_takes_every_payload() -> None:
    assert payload_faults({}, {"anything": [1]}) == []
    assert payload_faults(None, {"anything": [1]}) == []


def test_every_fault_has_its_place() -> None:
    schema = {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}}
    assert payload_faults(schema, {"tags": ["a", 2]}) == ["payload.tags.1: 2 is not of type 'string'"]
    assert payload_faults(FULL, {"more": 1}) == [
        "payload: 'url' is a required property",
        "payload: Additional properties are not allowed ('more' was unexpected)",
    ]


def test_defaults_are_those_of_the_properties() -> None:
    assert defaults_of(FULL) == {"depth": 2}
    assert defaults_of({"depth": {"type": "integer", "default": 0}}) == {"depth": 0}
    assert defaults_of({"type": "object", "properties": []}) == {}
    assert defaults_of(None) == {}


def test_a_schema_that_is_none_is_a_fault_of_its_own() -> None:
    (fault,) = payload_faults({"type": "object", "properties": {"a": {"type": "nothing"}}}, {"a": 1})
    assert fault.startswith("the schema itself is no JSON Schema")


def test_a_reference_to_elsewhere_is_refused_and_never_fetched() -> None:
    (fault,) = payload_faults({"$ref": "http://127.0.0.1:9/schema.json"}, {})
    assert fault.startswith("the schema cannot be applied")
