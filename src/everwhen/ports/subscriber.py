"""Who wants to have messages."""

from __future__ import annotations

from typing import Any, Protocol


class Subscriber(Protocol):
    """One receiver. `subscriber_id` names its cursor: the same id goes on where it was, on every node."""

    @property
    def subscriber_id(self) -> str: ...

    def deliver(self, event: dict[str, Any]) -> None:
        """Take one MessageEvent. When this raises, the same one comes again, and nothing behind it before.

        It is called on a thread of its own and may block. It may come twice: `event_id` and
        `correlation.dedupe_key` are the same then.
        """
        ...
