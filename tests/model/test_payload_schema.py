from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.payload import defaults_of, expand_schema, payload_faults

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
    assert fault.startswith("the schema is not a valid JSON Schema")


def test_a_reference_to_another_document_is_refused_and_never_fetched() -> None:
    (fault,) = payload_faults({"$ref": "http://127.0.0.1:9/schema.json"}, {})
    assert fault.startswith("the schema cannot be applied")


# -- what strangers' payloads cost --


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"properties": {"a": {"pattern": "^([a-zA-Z0-9]+)*@x$"}}}, {"a": "a" * 60_000}),
        ({"properties": {"a": {"pattern": "(x+x+)+y"}}}, {"a": "x" * 60_000}),
        (
            {"patternProperties": {"^([a-z]+)*$": {"type": "string"}}, "properties": {}},
            {"a" * 60_000 + "!": 1},
        ),
        ({"patternProperties": {"^(a|a)*$": {}}, "additionalProperties": False}, {"a" * 60_000 + "!": 1}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [{"n": n} for n in range(8_000)]}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [[], {}, "", 1] * 10_000}),
        ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": [1] * 30_000}),
    ],
    ids=str,
)
def test_no_payload_keeps_a_schema_busy(schema: dict[str, Any], payload: dict[str, Any]) -> None:
    faults = payload_faults({"type": "object", **schema}, payload)
    assert len(faults) <= 10 and all(len(fault) < 300 for fault in faults)


def test_patterns_mean_what_json_schema_says() -> None:
    schema = {"type": "object", "properties": {"a": {"pattern": r"^\u00e9\\u[0-9]{2}\/$"}}}
    assert payload_faults(schema, {"a": "é\\u12/"}) == []
    assert len(payload_faults(schema, {"a": "é\\u1/"})) == 1
    assert len(payload_faults(schema, {"a": "é\\u12/\n"})) == 1
    names = {
        "type": "object",
        "patternProperties": {"^x-": {"type": "integer"}},
        "additionalProperties": False,
    }
    assert payload_faults(names, {"x-a": 1}) == []
    assert payload_faults(names, {"x-a": "1"}) == ["payload.x-a: '1' is not of type 'integer'"]
    assert payload_faults(names, {"y": 1}) == [
        "payload: Additional properties are not allowed ('y' was unexpected)"
    ]


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "a{5000}"])
def test_a_pattern_that_is_not_linear_is_named(pattern: str) -> None:
    (fault,) = payload_faults({"type": "object", "properties": {"a": {"pattern": pattern}}}, {"a": "b"})
    assert fault.startswith(f'the schema cannot be applied: the pattern "{pattern}" cannot be used')


@pytest.mark.parametrize(
    ("items", "is_unique"),
    [
        ([1, True], True),
        ([1, 1.0], False),
        ([0, False], True),
        ([[1], [True]], True),
        ([{"a": 1}, {"a": 1}], False),
    ],
)
def test_items_are_unique_as_json_says(items: list[Any], is_unique: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"uniqueItems": True}}}
    assert (payload_faults(schema, {"a": items}) == []) is is_unique
