"""Pings of a schedule's URL: its path and its query are added to, what it has already is kept.

A receiver keeps the first bytes of a body, and says how many (`Ping-Body-Limit`): the beginning of the output is left
out, so that its end arrives. The configuration of a monitor goes with the first ping that is taken, and when it has
changed. Both are known to the process that sends: another one, after it, learns them anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from everwhen.alerts.http import HttpChannel
from everwhen.model.alerts import AlertDelivery, Sent
from everwhen.targets.secrets import Secrets, UnresolvedError

UNKNOWN_LIMIT = 10_000  # bytes; that of a server of Healthchecks that nobody has configured
MOST_KNOWN = 10_000  # URLs


class PingChannel:
    """Posts pings; a URL that came over REST reaches public addresses only."""

    def __init__(self, http: HttpChannel) -> None:
        self._http = http
        self._lock = Lock()  # pings of several schedules are sent side by side
        self._limits: dict[str, int] = {}  # by host
        self._taken: dict[str, str] = {}  # the configuration of each monitor, by URL

    def send(self, _spec: Any, delivery: AlertDelivery) -> Sent:
        body, secrets = delivery.content, Secrets()
        is_outside = body["source"] == "api"
        try:
            url = body["url"] if is_outside else secrets.resolve(body["url"])
        except UnresolvedError as error:
            return Sent(False, str(error))
        configuration = self._untaken(url, body["json"])
        if configuration is not None:
            kind, said = "application/json", configuration.encode()
        else:
            kind, said = "text/plain; charset=utf-8", shortened(body["text"].encode(), self._limit_of(url))
        sent = self._http.post(
            pinged_url(url, body["path"], body["query"]),
            {"Content-Type": kind, "Everwhen-Delivery-Id": delivery.delivery_id},
            said,
            is_outside=is_outside,
        )
        self._learn(url, sent, configuration)
        return sent._replace(answer=secrets.mask(sent.answer) or "")

    def _untaken(self, url: str, configuration: Any) -> str | None:
        """Return the configuration of a monitor, unless its receiver has it already."""
        text = None if configuration is None else json.dumps(configuration)
        return None if text == self._taken.get(url) else text

    def _limit_of(self, url: str) -> int:
        return self._limits.get(urlsplit(url).netloc, UNKNOWN_LIMIT)

    def _learn(self, url: str, sent: Sent, configuration: str | None) -> None:
        with self._lock:
            if sent.body_limit is not None:
                _put(self._limits, urlsplit(url).netloc, sent.body_limit)
            if configuration is not None and sent.is_delivered:
                _put(self._taken, url, configuration)


def _put(known: dict[str, Any], key: str, value: object) -> None:
    if key not in known and len(known) >= MOST_KNOWN:
        del known[next(iter(known))]
    known[key] = value


def shortened(body: bytes, most: int) -> bytes:
    """Return the first line of a body and the end of the rest, at most so many bytes.

    >>> shortened(b"job.failed: no\\nline 1\\nline 2", 20), shortened(b"job.failed: no\\n1", 5), shortened(b"a\\nb", 9)
    (b'job.failed: no\\nine 2', b'job.f', b'a\\nb')
    """
    if len(body) <= most:
        return body
    head, separator, rest = body.partition(b"\n")
    head = (head + separator)[:most]
    left = most - len(head)
    return head + (rest[-left:].decode(errors="ignore").encode() if left else b"")


def pinged_url(url: str, path: str, query: dict[str, str]) -> str:
    """Return the URL of one ping.

    >>> pinged_url("https://hc/ping/my-job?create=1", "/start", {"rid": "7"})
    'https://hc/ping/my-job/start?create=1&rid=7'
    """
    parts = urlsplit(url)
    whole = [*parse_qsl(parts.query, keep_blank_values=True), *query.items()]
    joined = parts.path.rstrip("/") + path if path else parts.path
    return urlunsplit(parts._replace(path=joined, query=urlencode(whole)))


def make_channel(now: Callable[[], int], allow_private_urls: Callable[[], bool]) -> PingChannel:
    return PingChannel(HttpChannel(now, allow_private_urls=allow_private_urls))
