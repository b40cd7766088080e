"""The request of a run: its method, headers and body, and which of them a redirect may repeat to which host."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from yarl import URL

from everwhen.model.http_headers import header_fault, without_credentials
from everwhen.model.instants import moment_of
from everwhen.model.job import trace_id_of
from everwhen.target import Run
from everwhen.version import __version__

_WITHOUT_BODY = ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes | None

    def redirected(self, status: int, location: str) -> Request:
        """Return the next request of a redirect: 307 and 308 repeat it, the others fetch the result (RFC 9110).

        Raise ValueError when it does not lead to an http or https URL.
        """
        url = _joined(self.url, location)
        headers = dict(self.headers)
        if url.origin() != self.url.origin():
            headers = without_credentials(headers)
        if status in (307, 308) or self.method in _WITHOUT_BODY:
            return replace(self, url=url, headers=headers)
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        return Request(method="GET", url=url, headers=headers, body=None)


def _joined(url: URL, location: str) -> URL:
    try:
        joined = url.join(URL(location))
    except ValueError as error:
        raise ValueError(
            f"{shown_address(url)} redirects to {location[:200]!r}, which is not a URL: {error}"
        ) from error
    if joined.scheme not in ("http", "https") or not joined.raw_host:
        raise ValueError(
            f"{shown_address(url)} redirects to {location[:200]!r}, which is not an http or https URL"
        )
    return joined


def shown_address(url: str | URL) -> str:
    """Return a URL as errors show it: without the password that it may contain.

    >>> shown_address("https://app:secret@example.com/hook")
    'https://app@example.com/hook'
    """
    address = URL(url)
    return str(address.with_password(None) if address.raw_password else address)


def request_of(fields: Mapping[str, Any], run: Run, token: str) -> Request:
    """Build the request of a run; raise ValueError when the fields are not valid."""
    url = URL(fields["url"])
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise ValueError(f"{shown_address(fields['url'])!r} is not an http or https URL")
    method = str(fields.get("method") or "POST").upper()
    body, kind = _body(fields.get("body"), run, method)
    headers = _about(run, token)
    if kind:
        headers["Content-Type"] = kind
    if given := fields.get("headers"):
        headers = _with_given(headers, given)
    return Request(method=method, url=url, headers=headers, body=body)


def _with_given(headers: Mapping[str, str], fields: Mapping[str, Any]) -> dict[str, str]:
    """Add the headers of the fields, which override ours, in upper or lower case."""
    given = {str(name): str(value) for name, value in fields.items()}
    for name, value in given.items():
        if fault := header_fault(name, value):  # a stored one, or the result of resolving a reference
            raise ValueError(f"header {name[:100]!r} {fault}")
    taken = {name.lower() for name in given}
    return {**{name: value for name, value in headers.items() if name.lower() not in taken}, **given}


def run_to_json(run: Run) -> dict[str, Any]:
    """Return the run as the JSON that a server gets."""
    return {
        "job_id": run.job_id,
        "schedule_id": run.schedule_id,
        "schedule_name": run.schedule_name,
        "slot_at": _iso(run.slot_at),
        "attempt": run.attempt,
        "origin": run.origin,
        "catch_up": run.catch_up,
        "repeat_number": run.repeat_number,
        "payload": run.payload,
        "deadline_at": None if run.deadline_at is None else _iso(run.deadline_at),
    }


def _body(given: Any, run: Run, method: str) -> tuple[bytes | None, str | None]:
    if given is None and method in _WITHOUT_BODY:
        return None, None
    if isinstance(given, str):
        return given.encode(), "text/plain; charset=utf-8"
    return json.dumps(run_to_json(run) if given is None else given).encode(), "application/json"


def _about(run: Run, token: str) -> dict[str, str]:
    return {
        "User-Agent": f"everwhen/{__version__}",
        "Everwhen-Job-Id": run.job_id,
        "Everwhen-Slot-At": _iso(run.slot_at),
        "Everwhen-Attempt": str(run.attempt),
        "Everwhen-Outcome-Token": token,
        "Idempotency-Key": run.job_id,
        "traceparent": _traceparent(run.job_id),
    }


def _traceparent(job_id: str) -> str:
    """Return one trace per job, derived from its id, so that its attempts belong together; a span per request.

    A span is a name and not a secret: it needs no system call, which would let another thread run.
    """
    trace, span = trace_id_of(job_id), random.getrandbits(64) or 1
    return f"00-{trace}-{span:016x}-01"


@lru_cache(maxsize=1_000)
def _iso(instant: int) -> str:
    """Format an instant; cached, because headers and body contain the slot, and many schedules share it."""
    return moment_of(instant).isoformat()
