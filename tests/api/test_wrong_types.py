"""A value of the wrong type, wherever it stands in whichever body, is told to its sender (422).

The calls, their bodies and what they may answer are taken from OpenAPI, so that a call added later is tried by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.api.serving import HTTP_RUN, PROBLEM, Service, serving

WRONG: tuple[Any, ...] = (
    [],
    {},
    True,
    0,
    -1,
    1.5,
    "",
    "x",
    [[]],
    {"type": []},
    [{"a": [True]}],
    [True],
    {"": None},
    10**200,
    "x" * 300,
    ["x", 1, None],
    None,
)
FEW = WRONG[:3]
DEEPEST = 3
NOT_TRIED = {"/api/v1/config/reload/", "/api/v1/config/diff/"}  # nobody has a file here


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("types"), allow_code_targets=True) as found:
        found.context.lift_rates()
        yield found


class Call:
    """One call with a body, as OpenAPI tells of it."""

    def __init__(self, document: dict[str, Any], path: str, method: str) -> None:
        fields = document["paths"][path][method]
        content = fields["requestBody"]["content"]["application/json"]
        self.path, self.method = path, method.upper()
        self.schema = content["schema"]
        self.answers = {int(status) for status in fields["responses"]}
        self._document = document
        resource = Resource.from_contents(document, default_specification=DRAFT202012)
        self._validator = Draft202012Validator(
            _rooted(self.schema), registry=Registry().with_resource("urn:openapi", resource)
        )
        examples = [one["value"] for one in content.get("examples", {}).values()]
        self.bodies: list[Any] = examples or [self._made(self.schema)]

    def allows(self, body: Any) -> bool:
        return bool(self._validator.is_valid(body))

    def places(self, schema: dict[str, Any] | None = None, depth: int = 0) -> Iterator[tuple[str, ...]]:
        """Where something can stand in the body: nowhere, a key, a key of a key."""
        if depth == 0:
            yield ()
        if depth == DEEPEST:
            return
        for name, inner in self._properties(schema or self.schema).items():
            yield (name,)
            for further in self.places(inner, depth + 1):
                if further:
                    yield (name, *further)

    def _properties(self, schema: dict[str, Any]) -> dict[str, Any]:
        schema = self._resolved(schema)
        found: dict[str, Any] = dict(schema.get("properties", {}))
        for branch in (*schema.get("anyOf", ()), *schema.get("allOf", ()), *schema.get("oneOf", ())):
            found |= self._properties(branch)
        return found

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            schema = self._document["components"]["schemas"][name]
        return schema

    def _made(self, schema: dict[str, Any]) -> Any:
        """The least that a schema of ours asks for."""
        schema = self._resolved(schema)
        if "anyOf" in schema:
            return self._made(schema["anyOf"][0])
        if schema.get("examples"):
            return schema["examples"][0]
        if "enum" in schema:
            return schema["enum"][0]
        if schema.get("type") == "object" or "properties" in schema:
            return {name: self._made(schema["properties"][name]) for name in schema.get("required", ())}
        if schema.get("format") == "date-time":
            return "2026-01-05T09:00:00Z"
        return {"string": "x", "integer": 1, "boolean": True, "array": []}.get(schema.get("type", ""))


def _rooted(schema: Any) -> Any:
    """With references that are resolved in the whole document."""
    if isinstance(schema, dict):
        return {
            key: f"urn:openapi{value}" if key == "$ref" else _rooted(value) for key, value in schema.items()
        }
    return [_rooted(item) for item in schema] if isinstance(schema, list) else schema


def calls(service: Service) -> list[Call]:
    document = replace(service.nobody, prefix="").get("/api/openapi.json").fields
    return [
        Call(document, path, method)
        for path, methods in document["paths"].items()
        for method, fields in methods.items()
        if "application/json" in fields.get("requestBody", {}).get("content", {}) and path not in NOT_TRIED
    ]


def put_in(body: Any, place: tuple[str, ...], value: Any) -> Any:
    """The body with a value in that place."""
    if not place:
        return value
    inner = body.get(place[0]) if isinstance(body, dict) else None
    kept = body if isinstance(body, dict) else {}
    return {**kept, place[0]: put_in(inner, place[1:], value)}


def address(service: Service, call: Call) -> str:
    """Its path, with things that are there."""
    found = call.path
    if "{schedule_id}" in found:
        found = found.replace("{schedule_id}", service.admin.create()["id"])
    if "{policy_id}" in found:
        fields = {"windows": [{"between": "22:00-07:00"}]}
        found = found.replace("{policy_id}", service.admin.post("/quiet-hours/", fields).fields["id"])
    return found.replace("{key}", "mine").replace("{job_id}", "none")


def faults(service: Service, call: Call, values: tuple[Any, ...]) -> Iterator[str]:
    """The answers that are not what OpenAPI says, or take what it does not allow."""
    client, path = replace(service.admin, prefix=""), address(service, call)
    for number, place in enumerate(call.places()):
        for value in values:
            body = put_in(call.bodies[number % len(call.bodies)], place, value)
            answer = client.call(call.method, path, raw=json.dumps(body).encode())
            is_documented = answer.status in call.answers and answer.status < 500
            is_problem = answer.status < 300 or answer.headers["content-type"] == PROBLEM
            if not (is_documented and is_problem and (call.allows(body) or answer.status == 422)):
                yield f"{call.method} {call.path} {json.dumps(body)[:300]}: {answer.status} {answer.raw[:300]!r}"


def test_a_value_of_the_wrong_type_is_asked_to_its_sender(service: Service) -> None:
    each = calls(service)
    assert len(each) > 12
    assert [fault for call in each for fault in faults(service, call, FEW)] == []


@pytest.mark.long
def test_every_wrong_value_is_asked_to_its_sender(service: Service) -> None:
    assert [fault for call in calls(service) for fault in faults(service, call, WRONG)] == []


@pytest.mark.parametrize("value", [[], {}, True, 1.5])
@pytest.mark.parametrize("key", ["type", "spec", "workflow_id", "catch_up", "every", "quiet_hours", "run"])
def test_a_word_of_a_schedule_is_judged_whatever_it_is(service: Service, key: str, value: Any) -> None:
    for fields in ({key: value}, {"every": "1h", "run": HTTP_RUN, key: value}, {"spec": "300", key: value}):
        answer = service.admin.post("/schedules/", fields)
        assert (answer.status, answer.problem) == (422, "invalid"), answer.raw
