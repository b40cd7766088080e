"""Jobs as they are answered, and the output of a job by portions."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence

from everwhen.model.bound_queue import plain_queue
from everwhen.model.delivery import Delivery
from everwhen.model.job import Job
from everwhen.model.output import OutputPiece
from everwhen.model.queries import JobPage
from everwhen.views.values import Object, cursor_of, when_text

# How far of each stream somebody has read: bytes by attempt and stream.
Positions = dict[tuple[int, str], int]
_POSITION = re.compile(r"([0-9]{1,9})\.([a-z]{1,20})\.([0-9]{1,15})")

_JOB = "schedule_id uid number retry attempt origin status queue reason error result".split()


_JOB_INSTANTS = "slot_at due_at not_before created_at started_at ended_at deadline_at".split()


def job_to_json(job: Job) -> Object:
    return {
        "id": job.job_id,
        **{name: getattr(job, name) for name in _JOB},
        **{name: when_text(getattr(job, name)) for name in _JOB_INSTANTS},
        "queue": plain_queue(job.queue),
        "payload": None if job.payload is None else json.loads(job.payload),
    }


def job_in_detail(job: Job, sent: Delivery | None) -> Object:
    return {
        **job_to_json(job),
        "handed_over_at": None if sent is None else when_text(sent.handed_over_at),
        "delivery": None if sent is None else sent.number,
    }


def jobs_page(page: JobPage) -> Object:
    return {
        "items": [job_to_json(job) for job in page.jobs],
        "total": page.total,
        "total_is_approximate": page.is_approximate,
        "next_cursor": None if page.next_before is None else cursor_of(page.next_before),
    }


# -- output --


def log_to_json(pieces: Sequence[OutputPiece], seen: Positions, *, is_over: bool) -> Object:
    """What is new of the output of a job; `seen` is moved behind it."""
    items = log_items(pieces, seen, is_over=is_over)
    return {"items": items, "total": len(items), "is_over": is_over, "next_after": positions_text(seen)}


def log_items(pieces: Sequence[OutputPiece], seen: Positions, *, is_over: bool) -> list[Object]:
    """What is new of each stream; a character of which only a part is there waits for its rest."""
    found: list[Object] = []
    last = {(piece.stream.attempt, piece.stream.stream): number for number, piece in enumerate(pieces)}
    for number, piece in enumerate(pieces):
        key = (piece.stream.attempt, piece.stream.stream)
        begin = max(piece.position, seen.get(key, 0))
        data = piece.data[begin - piece.position :]
        if number == last[key] and not is_over:
            data = data[: len(data) - _incomplete(data)]
        if not data:
            continue
        seen[key] = begin + len(data)
        previous = found[-1] if found else None
        if previous is not None and previous["key"] == key and previous["end"] == begin:
            previous["data"] += data
            previous["end"] += len(data)
        else:
            found.append({"key": key, "position": begin, "data": data, "end": begin + len(data)})
    return [
        {
            "attempt": one["key"][0],
            "stream": one["key"][1],
            "position": one["position"],
            "length": len(one["data"]),
            "text": one["data"].decode(errors="replace"),
        }
        for one in found
    ]


def _incomplete(data: bytes) -> int:
    """How many bytes at the end begin a character that is not all there."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length if length < needed else 0
        if byte < 0x80:
            return 0
    return 0


def log_text(items: Sequence[Object]) -> str:
    """The same for a terminal: streams one after another, each under its name where there are several."""
    kinds = {_stream(item) for item in items}
    lines: list[str] = []
    previous: Object | None = None
    for item in items:
        if previous is None or _stream(item) != _stream(previous):
            heading = f"{_break(lines)}== attempt {item['attempt']}, {item['stream']} ==\n"
            lines += [heading] if len(kinds) > 1 else []
        elif missing := item["position"] - previous["position"] - previous["length"]:
            lines.append(f"\n… {missing} bytes are not kept …\n")
        lines.append(item["text"])
        previous = item
    return "".join(lines)


def _stream(item: Object) -> tuple[int, str]:
    return item["attempt"], item["stream"]


def _break(lines: list[str]) -> str:
    return "\n" if lines and not lines[-1].endswith("\n") else ""


def positions_text(seen: Positions) -> str:
    text = ",".join(f"{attempt}.{stream}.{position}" for (attempt, stream), position in sorted(seen.items()))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_positions(text: str | None) -> Positions | None:
    """The positions that an `after` says; None: it says none."""
    if not text:
        return {}
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
        parts = [_POSITION.fullmatch(part) for part in plain.split(",")]
        return {(int(part[1]), part[2]): int(part[3]) for part in parts}  # type: ignore[index]
    except (ValueError, TypeError):
        return None
