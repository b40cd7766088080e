"""The page at `/api/docs`: the OpenAPI document as plain HTML, without a script, and with one style sheet of our own.

The style sheet is part of the package and named with its digest: a style sheet of another release, or one that somebody
changed on the way, is not taken.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha384
from html import escape
from importlib.resources import files
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from everwhen.api.problems import NOTHING

router = APIRouter(include_in_schema=False)
STYLE = (files("everwhen.api") / "static" / "docs.css").read_bytes()
INTEGRITY = f"sha384-{b64encode(sha384(STYLE).digest()).decode()}"
POLICY = f"{NOTHING}; style-src 'self'"
_CODE = re.compile(r"`([^`]+)`")

Fields = dict[str, Any]


@router.get("/api/docs")
def show_docs(request: Request) -> Response:
    state = request.app.state
    if not hasattr(state, "docs_page"):
        state.docs_page = render_page(request.app.openapi())
    return HTMLResponse(state.docs_page, headers={"content-security-policy": POLICY})


@router.get("/api/docs/style.css")
def show_style() -> Response:
    return Response(STYLE, media_type="text/css")


def render_page(document: Fields) -> str:
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            by_tag.setdefault(tag, []).append("".join(_operation(method, path, operation)))
    title = f"{escape(document['info']['title'])} {escape(document['info']['version'])}"
    return "".join(
        (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            '<meta name="viewport" content="width=device-width">',
            f'<link rel="stylesheet" href="docs/style.css" integrity="{INTEGRITY}"></head>',
            f"<body><h1>{title}</h1>{_text(document['info'].get('description', ''))}",
            "<nav>",
            *(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in by_tag),
            '<a href="#schemas">schemas</a><a href="openapi.json">openapi.json</a></nav>',
            *(f'<h2 id="{escape(tag)}">{escape(tag)}</h2>{"".join(parts)}' for tag, parts in by_tag.items()),
            '<h2 id="schemas">schemas</h2>',
            *(_schema(name, schema) for name, schema in document["components"]["schemas"].items()),
            "</body></html>",
        )
    )


def _operation(method: str, path: str, operation: Fields) -> Iterator[str]:
    yield f'<details id="{escape(operation.get("operationId", ""))}"><summary><b>{method.upper()}</b>'
    yield f"<code>{escape(path)}</code> {escape(operation.get('summary', ''))}</summary>"
    yield _text(operation.get("description", ""))
    yield from _parameters(operation.get("parameters", ()))
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        yield f"<h4>body: <code>{escape(kind)}</code></h4>{_link(schema) or _json(schema)}"
        for name, example in content.get("examples", {}).items():
            yield f"<p>{escape(name)}</p>{_json(example['value'])}"
    yield "<h4>answers</h4><table>"
    for status, answer in operation.get("responses", {}).items():
        shapes = [_link(content.get("schema", {})) for content in answer.get("content", {}).values()]
        about = _inline(answer.get("description", ""))
        yield f"<tr><th>{escape(status)}</th><td>{about}</td><td>{' '.join(shapes)}</td></tr>"
    yield "</table></details>"


def _parameters(parameters: Any) -> Iterator[str]:
    if not parameters:
        return
    yield "<h4>parameters</h4><table>"
    for one in parameters:
        need = "required" if one.get("required") else ""
        yield f"<tr><th><code>{escape(one['name'])}</code></th><td>{escape(one['in'])} {need}</td>"
        yield f"<td>{_inline(one.get('description', ''))}</td></tr>"
    yield "</table>"


def _schema(name: str, schema: Fields) -> str:
    return f'<details id="schema-{escape(name)}"><summary>{escape(name)}</summary>{_json(schema)}</details>'


def _link(schema: Fields) -> str:
    name = escape(str(schema.get("$ref", "")).rpartition("/")[2])
    return f'<a href="#schema-{name}">{name}</a>' if name else ""


def _json(fields: Any) -> str:
    return f"<pre>{escape(json.dumps(fields, indent=2, ensure_ascii=False))}</pre>"


def _text(text: str) -> str:
    return "".join(f"<p>{_inline(part)}</p>" for part in text.split("\n\n") if part)


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))
