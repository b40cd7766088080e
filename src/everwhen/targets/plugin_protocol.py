"""Protocol 2 of plugins: one JSON request on a plugin's standard input, one JSON response on its standard output.

This module runs nothing: bytes in, values out. Output that is not a response is a failure that shows its first bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everwhen.model.instants import moment_of
from everwhen.model.manifest import PROTOCOL
from everwhen.target import Run

FIRST_BYTES = 200
LONGEST_TEXT = 4_096
MOST_EVENTS = 256 * 1024  # characters; as much as is kept of a stream


@dataclass(frozen=True, slots=True)
class Response:
    """The response of a plugin. `fault`: why it does not follow this protocol."""

    is_ok: bool
    result: str = ""
    error: str = ""
    may_retry: bool = True
    state_updates: Mapping[str, Any] | None = None
    logs: tuple[str, ...] = ()
    events: str = ""
    fault: str | None = None


def request_of(
    run: Run,
    *,
    command: str,
    config: Mapping[str, Any],
    state: Mapping[str, Any],
    payload: Mapping[str, Any],
) -> bytes:
    """Build the request for one run, on one line."""
    request = {
        "protocol": PROTOCOL,
        "job_id": run.job_id,
        "command": command,
        "config": config,
        "state": state,
        "payload": payload,
        "context": _context(run),
        "deadline_at": None if run.deadline_at is None else _zulu(run.deadline_at),
    }
    return json.dumps(request).encode() + b"\n"


def _context(run: Run) -> dict[str, Any]:
    return {
        "schedule_id": run.schedule_id,
        "schedule_name": run.schedule_name,
        "slot_at": _zulu(run.slot_at),
        "attempt": run.attempt,
        "origin": run.origin,
        "catch_up": run.catch_up,
        "repeat_number": run.repeat_number,
    }


def _zulu(instant: int) -> str:
    return moment_of(instant).isoformat().replace("+00:00", "Z")


def response_of(output: bytes) -> Response:
    """Parse the response that a plugin printed; anything else is a fault that shows the output."""
    if not output.strip():
        return _no_response("nothing on standard output")
    try:
        document = json.loads(output, parse_constant=_refuse)
    except (ValueError, RecursionError):  # incomplete JSON, garbage, two documents, bytes that are not text
        return _no_response(f"standard output is not valid JSON: {first_bytes(output)}")
    if not isinstance(document, dict) or document.get("status") not in ("ok", "error"):
        return _no_response(f'standard output has no status "ok" or "error": {first_bytes(output)}')
    updates = document.get("state_updates")
    if updates is not None and not isinstance(updates, dict):
        return _no_response(f"state_updates is not an object: {first_bytes(output)}")
    return Response(
        is_ok=document["status"] == "ok",
        result=_text(document.get("result")),
        error=_text(document.get("error")),
        may_retry=document.get("retry") is not False,
        state_updates=updates or None,
        logs=_logs(document.get("logs")),
        events=_events(document.get("events")),
    )


def first_bytes(output: bytes) -> str:
    """Return the beginning of an invalid response in printable form.

    >>> first_bytes(b"Traceback")
    "b'Traceback'"
    """
    more = f" … ({len(output)} bytes)" if len(output) > FIRST_BYTES else ""
    return f"{bytes(output[:FIRST_BYTES])!r}{more}"


def _no_response(fault: str) -> Response:
    return Response(False, fault=fault)


def _text(value: Any) -> str:
    """Return a value as text: the protocol expects a sentence, but a plugin may also respond with an object."""
    if value is None:
        return ""
    text = (value if isinstance(value, str) else json.dumps(value))[:LONGEST_TEXT]
    # Half a surrogate pair and a NUL are valid in JSON, and no database accepts them.
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")


def _logs(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(f"{e.get('level', 'info')}: {e.get('message', '')}" for e in value if isinstance(e, dict))


def _events(value: Any) -> str:
    """Return the emitted events, one line of JSON each; the last line counts those that were too many to keep."""
    events = value if isinstance(value, list) else [] if value is None else [value]
    lines, size = [], 0
    for number, event in enumerate(events):
        line = json.dumps(event)
        size += len(line) + 1
        if size > MOST_EVENTS:
            lines.append(json.dumps({"not_kept": len(events) - number, "most_characters": MOST_EVENTS}))
            break
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)
