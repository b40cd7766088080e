"""The channels by kind; each loads its client with the first message that it sends."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from everwhen.model.alerts import AlertDelivery, Channel, ChannelKind, Sent


class LazyChannel:
    """A channel that is imported and built when it is first used; the imports take longer than a loop may block."""

    def __init__(self, build: Callable[[], Channel]) -> None:
        self._build = build
        self._built: Channel | None = None

    def send(self, spec: Any, delivery: AlertDelivery) -> Sent:
        if self._built is None:
            self._built = self._build()
        return self._built.send(spec, delivery)


def open_channels(
    now: Callable[[], int], *, allow_private_urls: Callable[[], bool] = lambda: False
) -> dict[ChannelKind, Channel]:
    """Return a channel of each kind."""

    def http() -> Channel:
        channel: Channel = import_module("everwhen.alerts.http").HttpChannel(
            now, allow_private_urls=allow_private_urls
        )
        return channel

    def made(module: str, name: str) -> Channel:
        channel: Channel = getattr(import_module(f"everwhen.alerts.{module}"), name)()
        return channel

    def ping() -> Channel:
        channel: Channel = import_module("everwhen.alerts.ping").make_channel(now, allow_private_urls)
        return channel

    return {
        "ping": LazyChannel(ping),
        "http": LazyChannel(http),
        "email": LazyChannel(lambda: made("mail", "MailChannel")),
        "command": LazyChannel(lambda: made("command", "CommandChannel")),
        "apprise": LazyChannel(lambda: made("apprise", "AppriseChannel")),
    }
