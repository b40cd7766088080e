"""A browser as far as sessions are concerned: it keeps the cookie, and its page keeps the proof."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Any

from tests.api.serving import Answer, Client


class BrowserSession:
    """Sends the cookie with every request, as a browser does, and the proof only where it is told to: `**proof`."""

    def __init__(self, client: Client, body: dict[str, Any], path: str = "/session/", **headers: str) -> None:
        self.client = client
        self.begun = client.post(path, body, headers=headers)
        self.cookies = SimpleCookie(self.begun.headers.get("set-cookie", ""))

    @property
    def name(self) -> str:
        """The name of the cookie."""
        (name,) = self.cookies
        return name

    @property
    def cookie(self) -> Any:
        return self.cookies[self.name]

    @property
    def header(self) -> dict[str, str]:
        """What the browser sends by itself, to every port of the host."""
        return {"Cookie": f"{self.name}={self.cookie.value}"}

    @property
    def proof(self) -> dict[str, str]:
        return {"X-CSRF-Token": self.begun.fields["csrf_token"]}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self.client.call(method, path, body, headers={**self.header, **headers})

    def get(self, path: str) -> Answer:
        """What the page reads."""
        return self.call("GET", path, **self.proof)
