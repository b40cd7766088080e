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
    """No answer came, or none that says what was done: the node or the database is away."""


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
        connection = http.client.HTTPConnection(self.draw.choice(self.addresses), timeout=PATIENCE)
        try:
            connection.request(request.method, f"/api/v1{request.path}", raw, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise UnansweredError(str(error)) from error
        finally:
            connection.close()
        if answer.status == 503:
            raise UnansweredError(text.decode(errors="replace"))
        return Answer(answer.status, json.loads(text) if text else None)
