"""Calls of the REST API as clients make them: at any of its nodes, and again where no answer came."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

PATIENCE = 5.0  # seconds that a client waits for an answer


class UnansweredError(Exception):
    """No answer came, or none that says what was done: the node or the database is away. `kind` says which."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Answer(NamedTuple):
    status: int
    fields: Any

    @property
    def is_done(self) -> bool:
        return 200 <= self.status < 300


class Request(NamedTuple):
    """One call. With a `key` it may be sent again: the answer is then the one to the first time."""

    method: str
    path: str
    body: Any = None
    key: str | None = None
    headers: Mapping[str, str] = {}


@dataclass
class RestClient:
    """Calls with one token at one of several nodes, drawn for each call."""

    addresses: Sequence[str]  # host:port
    secret: str
    draw: Random

    def send(self, request: Request) -> Answer:
        """Send a request; raise UnansweredError where it is unknown whether anything was done."""
        headers = {"Authorization": f"Bearer {self.secret}", **request.headers}
        if request.key is not None:
            headers["Idempotency-Key"] = request.key
        raw = None
        if request.body is not None:
            raw, headers["Content-Type"] = json.dumps(request.body).encode(), "application/json"
        refused: UnansweredError | None = None
        for address in self.draw.sample(self.addresses, len(self.addresses)):
            try:
                return _ask(address, request, raw, headers)
            except UnansweredError as error:
                if error.kind != ConnectionRefusedError.__name__:
                    raise
                refused = error  # nothing was sent: the next node may be there
        assert refused is not None
        raise refused


def _ask(address: str, request: Request, raw: bytes | None, headers: Mapping[str, str]) -> Answer:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        connection.request(request.method, f"/api/v1{request.path}", raw, dict(headers))
        answer = connection.getresponse()
        text = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise UnansweredError(type(error).__name__, str(error)) from error
    finally:
        connection.close()
    if answer.status == 503:
        raise UnansweredError("503", text.decode(errors="replace"))
    return Answer(answer.status, json.loads(text) if text else None)
