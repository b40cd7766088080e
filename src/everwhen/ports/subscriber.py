"""Receivers of messages."""

from __future__ import annotations

from typing import Any, Protocol


class Subscriber(Protocol):
    """One receiver. `subscriber_id` names its cursor: the same id continues where it was, on every node."""

    @property
    def subscriber_id(self) -> str: ...

    def deliver(self, event: dict[str, Any]) -> None:
        """Receive one MessageEvent. When this raises, the same one is delivered again, before any later one.

        It is called on a thread of its own and may block. An event may arrive twice, with the same `event_id` and
        `correlation.dedupe_key`.
        """
        ...
