"""Every call that the OpenAPI document tells of, and how a test makes it."""

from __future__ import annotations

import http.client
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from everwhen.model.token import ROLES, AccessRole
from tests.api.serving import Answer, Client, Service


@dataclass(frozen=True, slots=True)
class Call:
    """One operation of the document."""

    method: str
    path: str
    fields: dict[str, Any]
    schemas: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"

    @property
    def is_open(self) -> bool:
        return not self.fields.get("security")

    @property
    def roles(self) -> list[str]:
        """As the document says them: the role, and `no-owner` where a token with an owner is refused."""
        (first, *others) = [scopes for one in self.fields["security"] for scopes in one.values()]
        assert all(other == first for other in others), f"{self}: not the same for both headers"
        return list(first)

    @property
    def role(self) -> AccessRole:
        (found,) = (role for role in ROLES if role in self.roles)
        return found

    @property
    def is_global(self) -> bool:
        return "no-owner" in self.roles

    @property
    def is_stream(self) -> bool:
        return "text/event-stream" in str(self.fields["responses"].get("200"))

    def names(self, where: str) -> list[str]:
        return [one["name"] for one in self.fields.get("parameters", ()) if one["in"] == where]

    def target(self, things: dict[str, str]) -> str:
        """The path with the things in it, and those that its query can name."""
        path = self.path
        for name in self.names("path"):
            path = path.replace(f"{{{name}}}", quote(thing(self, name, things), safe=""))
        query = {name: things[name] for name in self.names("query") if name in things}
        return path + (f"?{urlencode(query)}" if query else "")

    def body(self, things: dict[str, str]) -> Any:
        content = self.fields.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            return None
        example = next((one["value"] for one in content.get("examples", {}).values()), None)
        found = example if example is not None else sample(content.get("schema", {}), self.schemas)
        if isinstance(found, dict) and "schedule_ids" in found:
            found = {**found, "schedule_ids": [things["schedule_id"]]}
        return found


def thing(call: Call, name: str, things: dict[str, str]) -> str:
    found = things.get(f"{name} of {call.path}", things.get(name))
    assert found is not None, f"say in `things_of` what {name} of {call} may name"
    return found


def sample(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """A value that a schema allows; examples first."""
    if "$ref" in schema:
        return sample(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if schema.get("examples"):
        return schema["examples"][0]
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return sample(next(one for one in schema[key] if one.get("type") != "null"), schemas)
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            wanted = schema.get("required", [])
            return {name: sample(properties[name], schemas) for name in wanted}
        case "array":
            return [sample(schema["items"], schemas)] if schema.get("minItems") else []
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "string":
            return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "x"
    return {}


def calls_of(service: Service) -> list[Call]:
    """The calls of the document of a service."""
    document = replace(service.admin, prefix="").get("/api/openapi.json").fields
    return [
        Call(method, path, fields, document["components"]["schemas"])
        for path, methods in document["paths"].items()
        for method, fields in methods.items()
    ]


def ask(client: Client, call: Call, things: dict[str, str], **headers: str) -> Answer:
    """One call; of a stream only what it says before it goes on."""
    bare = replace(client, prefix="")
    if not call.is_stream:
        return bare.call(call.method.upper(), call.target(things), call.body(things), headers=headers)
    connection = http.client.HTTPConnection(urlsplit(client.url).netloc, timeout=30)
    try:
        sent = {"Authorization": f"Bearer {client.secret}"} if client.secret else {}
        connection.request("GET", call.target(things), headers=sent | headers)
        answer = connection.getresponse()
        raw = b"" if answer.status == 200 else answer.read()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, raw)
    finally:
        connection.close()
