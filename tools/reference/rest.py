"""`rest.md` and `rest-shapes.md`: the OpenAPI document as pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from everwhen.api.app import ABOUT, create_app
from everwhen.api.context import ApiContext
from everwhen.config.settings import ApiSettings
from everwhen.config.submission import SubmissionRules
from everwhen.testing import manual_scheduler
from tools.reference.markdown import code, prose, table
from tools.reference.markdown import page as make_page

Fields = dict[str, Any]
INTRODUCTION = """`GET /api/openapi.json` on a running service is the same as a document for programs, and `GET
/api/docs` shows it. The guides explain [the calls](../guide/rest.md), [tokens and
their limits](../guide/tokens.md), [webhooks](../guide/webhooks.md) and [streams](../guide/events.md), with
requests to copy.

A role may do what the ones before it may: `viewer` reads, `operator` changes schedules and jobs, `admin`
manages tokens and the configuration. *No owner* means that a token that is confined to an owner is refused."""
COMMON = "Any call may also answer these, as problem details ([`Problem`](rest-shapes.md#problem)):"
SHAPES = "The bodies and answers of [REST](rest.md), by name. A field in bold is always there, or required."


def no_rules() -> SubmissionRules:
    """Return the rules for submissions, which nobody asks for where only the document is read."""
    raise NotImplementedError


@cache
def document() -> Fields:
    """Return the OpenAPI document of this release."""
    scheduler = manual_scheduler()
    found: Fields = create_app(ApiContext(scheduler.runtime, ApiSettings(), no_rules)).openapi()
    scheduler.close()
    return found


def calls() -> Iterator[tuple[str, str, Fields]]:
    """Return every call: its method, its path and what the document says about it."""
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def calls_page() -> str:
    by_tag: dict[str, list[tuple[str, str, Fields]]] = {}
    for method, path, operation in calls():
        by_tag.setdefault(operation["tags"][0], []).append((method, path, operation))
    common = _common()
    parts = []
    for tag, found in by_tag.items():
        parts.append(f"## {tag.capitalize()}")
        parts.append(table(("call", "path", "role"), (_listed(*call) for call in found)))
        parts += [part for call in found for part in _call(*call, common)]
    rows = ((code(status), prose(about)) for status, about in common.items())
    return make_page("REST", ABOUT, INTRODUCTION, COMMON, table(("status", "meaning"), rows), *parts)


def _common() -> dict[str, str]:
    """Return the answers that nearly every call has in the same words."""
    counts: dict[tuple[str, str], int] = {}
    number = 0
    for _, _, operation in calls():
        number += 1
        for status, answer in operation["responses"].items():
            key = status, answer.get("description", "")
            counts[key] = counts.get(key, 0) + 1
    return {
        status: about
        for (status, about), count in sorted(counts.items())
        if count > number * 0.6 and status > "4"
    }


def _listed(method: str, path: str, operation: Fields) -> tuple[str, str, str]:
    title = operation["summary"]
    return f"[{prose(title)}](#{operation['operationId']})", code(f"{method} {path}"), _role(operation)


def _call(method: str, path: str, operation: Fields, common: dict[str, str]) -> Iterator[str]:
    yield f"### {code(operation['operationId'])}"
    yield f"{code(f'{method} {path}')} · {_role(operation)}"
    yield f"**{prose(operation['summary'])}.** {prose(operation.get('description', ''))}"
    if parameters := operation.get("parameters"):
        yield table(("parameter", "in", "type", "meaning"), map(_parameter, parameters))
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Body ({code(kind)}): {type_text(content.get('schema', {}))}."
    answers = []
    for status, answer in operation["responses"].items():
        if common.get(status) != answer.get("description", ""):
            shapes = [type_text(content.get("schema", {})) for content in answer.get("content", {}).values()]
            shape = ", ".join(
                dict.fromkeys(one for one in shapes if one != "[`Problem`](rest-shapes.md#problem)")
            )
            answers.append((code(status), prose(answer.get("description", "")), shape))
    yield table(("answer", "meaning", "shape"), answers)


def _role(operation: Fields) -> str:
    scopes = [scope for one in operation.get("security") or () for scope in next(iter(one.values()))]
    roles = [role for role in ("viewer", "operator", "admin") if role in scopes]
    if not roles:
        return "no token"
    return f"role {code(roles[0])}{', no owner' if 'no-owner' in scopes else ''}"


def _parameter(one: Fields) -> tuple[str, str, str, str]:
    name = f"**{code(one['name'])}**" if one.get("required") else code(one["name"])
    return name, one["in"], type_text(one.get("schema", {})), prose(one.get("description", ""))


def shapes_page() -> str:
    parts = [
        part
        for name, schema in sorted(document()["components"]["schemas"].items())
        for part in _shape(name, schema)
    ]
    return make_page("Shapes of REST", SHAPES, *parts)


def _shape(name: str, schema: Fields) -> Iterator[str]:
    yield f"## `{name}`"
    if about := schema.get("description"):
        yield prose(about)
    fields = schema.get("properties")
    if not fields:
        yield f"{_capital(type_text({key: value for key, value in schema.items() if key != 'title'}, 3))}."
        return
    required = schema.get("required", ())
    rows = []
    for field, inner in fields.items():
        shown = f"**{code(field)}**" if field in required else code(field)
        rows.append((shown, type_text(inner), prose(inner.get("description", ""))))
    yield table(("field", "type", "meaning"), rows)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def type_text(schema: Fields, depth: int = 2) -> str:
    """Return the type of a schema in a few words, with links to named shapes."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{code(name)}](rest-shapes.md#{name.lower()})"
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(code("null" if word is None else str(word)) for word in schema["enum"])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(type_text(one, depth) for one in schema[word]))
    if schema.get("allOf"):
        return type_text(schema["allOf"][0], depth)
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {type_text(schema.get('items', {}), depth - 1)}" if depth else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict) and depth:
        return f"object of {type_text(schema['additionalProperties'], depth - 1)}"
    return _scalar(schema, str(kind or "anything"))


def _scalar(schema: Fields, kind: str) -> str:
    if schema.get("format"):
        kind = f"{kind} ({schema['format']})"
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None and most < 2**31:
        return f"{kind}, {least:,} to {most:,}"
    return f"{kind}, {least:,} or more" if least else kind
