"""The OpenAPI document is one that generators can read: short names, named schemas, nothing anonymous in between."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.api.serving import Service

NULL = {"type": "null"}
COMPONENTS = "#/components/schemas/"
# What is told in text: lines of JSON, events, figures.
TEXTS = {"application/x-ndjson", "text/plain", "text/event-stream", "text/plain; version=0.0.4"}


@pytest.fixture(scope="module")
def document(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = replace(service.nobody, prefix="/api").get("/openapi.json").fields
    return found


@pytest.fixture(scope="module")
def calls(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [call for methods in document["paths"].values() for call in methods.values()]


def schemas_in(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything that may be a schema, with its path; examples are data."""
    if isinstance(value, dict):
        yield path, value
        for key, inner in value.items():
            if key not in ("examples", "example"):
                yield from schemas_in(inner, f"{path}/{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from schemas_in(inner, f"{path}/{number}")


def is_named(path: str) -> bool:
    return re.fullmatch(r"/components/schemas/\w+", path) is not None


def test_every_call_has_a_short_name_of_its_own(calls: list[dict[str, Any]]) -> None:
    names = [call["operationId"] for call in calls]
    assert len(set(names)) == len(names) > 60
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+){1,3}", name) or len(name) > 24] == []
    assert {"create_schedule", "pause_schedule", "get_schedule_by_key"} <= {*names}


def test_every_body_and_every_answer_is_a_named_schema(calls: list[dict[str, Any]]) -> None:
    for call in calls:
        parts = [call.get("requestBody", {}), *call["responses"].values()]
        for kind, media in (
            (kind, media) for part in parts for kind, media in part.get("content", {}).items()
        ):
            assert kind in TEXTS or "$ref" in media["schema"], (call["operationId"], kind, media["schema"])


def test_no_union_no_choice_and_no_object_is_without_a_name(document: dict[str, Any]) -> None:
    for path, schema in schemas_in(document):
        if is_named(path):
            continue
        others = [one for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key, ()) if one != NULL]
        assert len(others) <= 1, f"{path} is a union"
        assert not isinstance(schema.get("type"), list), f"{path} has several types"
        assert "enum" not in schema or not isinstance(schema["enum"], list), f"{path} is a choice"
        assert not (schema.get("type") == "object" and "properties" in schema), f"{path} is an object"


def test_every_reference_leads_to_a_schema_and_none_is_left_over(document: dict[str, Any]) -> None:
    known = document["components"]["schemas"]
    named = {found["$ref"] for _, found in schemas_in(document) if isinstance(found.get("$ref"), str)}
    assert {name.removeprefix(COMPONENTS) for name in named} == {*known}
    assert not any("x-schema" in found for _, found in schemas_in(document))


def test_the_schemas_that_the_contract_names_are_there(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    body = schemas["ScheduleBody"]
    assert {"every", "workflow_id", "interval_seconds", "type", "spec", "secret", "run"} <= {
        *body["properties"]
    }
    assert "required" not in body  # a change names what it changes
    assert {"command", "http", "python", "message", "plugin", "agent", "workflow"} <= {
        *schemas["Target"]["properties"]
    }
    assert schemas["WorkflowId"]["anyOf"] == [{"type": "string"}, {"type": "integer"}]
    assert schemas["Schedule"]["properties"]["workflow_id"] == {
        "anyOf": [{"$ref": f"{COMPONENTS}WorkflowId"}, {"type": "null"}]
    }


def test_bodies_that_are_checked_like_a_file_have_no_defaults_that_a_client_would_send(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]
    for name in ("ScheduleBody", "Target", "HttpTarget", "BreakerRule", "ExpectRule", "QuietHoursChange"):
        assert not any("default" in one for one in schemas[name]["properties"].values()), name
    assert schemas["HttpTarget"]["properties"]["method"]["description"] == "The HTTP method. Default: POST."


def test_a_listed_schedule_has_the_fields_of_a_schedule_and_needs_only_its_id(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]
    listed = dict(schemas["ListedSchedule"]["properties"])
    assert listed.pop("recent")["items"] == {"$ref": f"{COMPONENTS}RecentSlot"}
    assert listed.pop("usual_seconds")["anyOf"][0] == {"type": "number"}
    assert listed == schemas["Schedule"]["properties"]
    assert schemas["ListedSchedule"]["required"] == ["id"]
    assert {*schemas["Schedule"]["required"]} == {*schemas["Schedule"]["properties"]}
    assert {*schemas["ScheduleField"]["enum"]} == {*schemas["Schedule"]["properties"]}
