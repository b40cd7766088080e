"""The OpenAPI document, and the page at `/api/docs`: the same as plain HTML, without a script.

Anybody may ask for them, as often as they like. So they are made and encoded once, and sent as bytes.

The style sheet of the page is part of the package and named with its digest: a style sheet of another release, or one
that somebody changed on the way, is not taken.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256, sha384
from html import escape
from importlib.resources import files
from typing import Any

from anyio.to_thread import run_sync
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from everwhen.api.problems import NOTHING
from everwhen.api.request_guard import root_of
from everwhen.engine.loop import low_priority

STYLE = (files("everwhen.api") / "static" / "docs.css").read_bytes()
INTEGRITY = f"sha384-{b64encode(sha384(STYLE).digest()).decode()}"
POLICY = f"{NOTHING}; style-src 'self'"
OPENAPI, PAGE, STYLE_SHEET = "/api/openapi.json", "/api/docs", "/api/docs/style.css"
MOST_PREFIXES = 8
_CODE = re.compile(r"`([^`]+)`")

Fields = dict[str, Any]


class Document:
    """What is sent as it is: encoded and compressed once, and named by its digest."""

    def __init__(self, content: bytes, media_type: str, policy: str | None = None) -> None:
        self._forms = {"identity": content, "gzip": gzip.compress(content, 6, mtime=0)}
        self._media_type = media_type
        # Of both forms: a weak one.
        self._etag = f'W/"{sha256(content).hexdigest()[:32]}"'
        self._headers = {"cache-control": "no-cache", "vary": "accept-encoding", "etag": self._etag}
        if policy is not None:
            self._headers["content-security-policy"] = policy

    def answer(self, request: Request) -> Response:
        """Return the document, or that it is the one that the client has."""
        wanted = request.headers.get("if-none-match", "")
        if self._etag.removeprefix("W/") in wanted:
            return Response(None, 304, self._headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self._forms["identity"], 200, self._headers, self._media_type)
        headers = {**self._headers, "content-encoding": "gzip"}
        return Response(self._forms["gzip"], 200, headers, self._media_type)


class Documents:
    """The documents of an application, each made on a thread at the first request for it, once for all requests."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._made: dict[tuple[str, str], Document] = {}
        self._making = asyncio.Lock()

    async def get(self, name: str, root: str) -> Document:
        """Return a document for an application that is mounted under that path."""
        async with self._making:
            if (name, root) not in self._made:
                if (
                    len(self._made) >= 2 * MOST_PREFIXES
                ):  # a host may take a prefix from the path of a request
                    self._made.clear()
                self._made[name, root] = await run_sync(self._make, name, root)
            return self._made[name, root]

    def _make(self, name: str, root: str) -> Document:
        with low_priority():
            document = self._app.openapi()
            if name == PAGE:
                return Document(render_page(document).encode(), "text/html", POLICY)
            if root:
                document = {**document, "servers": [{"url": root}]}
            text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
            return Document(text.encode(), "application/json")


async def send_openapi(request: Request) -> Response:
    documents: Documents = request.app.state.documents
    return (await documents.get(OPENAPI, root_of(request.scope))).answer(request)


async def send_page(request: Request) -> Response:
    documents: Documents = request.app.state.documents
    return (await documents.get(PAGE, "")).answer(request)


_STYLE_SHEET = Document(STYLE, "text/css")


async def send_style(request: Request) -> Response:
    return _STYLE_SHEET.answer(request)


router = Router([Route(OPENAPI, send_openapi), Route(PAGE, send_page), Route(STYLE_SHEET, send_style)])


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
