"""What tools answer: instants with their weekday and zone, and a sentence that can be read to the person."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from everwhen.mcp.rest import Fields
from everwhen.mcp.schemas import DAYS
from everwhen.model.pause import describe_pause
from everwhen.timetable.civil_time import zone as zone_named
from everwhen.timetable.instant_text import format_datetime

_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def local_moment(text: str, zone: str) -> datetime:
    """Return an instant of an answer with the readings of a zone."""
    return zone_named(zone).localized(moment(text))


def local_text(text: str | None, zone: str) -> str | None:
    """Return an instant of a schedule as a person reads it, in that schedule's zone."""
    return None if text is None else format_datetime(local_moment(text, zone))


def distance(seconds: float) -> str:
    """Return a duration in its two largest units.

    >>> distance(90_061), distance(59), distance(-60)
    ('1d 1h', '59s', '0s')
    """
    left, parts = max(int(seconds), 0), []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def last_moment(end: str, zone: str) -> datetime:
    """Return the last second before an end, with the readings of a zone: slots are before the end."""
    return local_moment(end, zone) - timedelta(seconds=1)


def last_text(end: str | None, zone: str) -> str | None:
    return None if end is None else format_datetime(last_moment(end, zone))


def slot_to_json(at: str, zone: str, now: datetime) -> Fields:
    """Return one instant: in UTC, in the zone, its weekday there, and how far away it is."""
    local = local_moment(at, zone)
    return {
        "at": at,
        "local": format_datetime(local, exact=True),
        "weekday": f"{local:%A}",
        "in": distance((local - now).total_seconds()),
    }


def local_now(now: str, zone: str) -> str:
    """Return now as people say it: Monday 2026-11-16 10:04 Europe/Berlin."""
    return f"{local_moment(now, zone):%A %Y-%m-%d %H:%M} {zone}"


def sentence_of(given: Mapping[str, Any], sentence: str) -> str:
    """Return the trigger in words: of `time` and `days` shorter than of the cron expression that they become."""
    if "time" not in given:
        return f"{sentence[:1].upper()}{sentence[1:]}"
    days = sorted(given.get("days", DAYS), key=DAYS.index)
    if len(days) == len(DAYS):
        when = "Every day"
    elif days == DAYS[:5]:
        when = "Every weekday"
    else:
        named = [_NAMES[DAYS.index(day)] for day in days]
        when = f"Every {' and '.join(filter(None, (', '.join(named[:-1]), named[-1])))}"
    return f"{when} at {given['time']}"


def outcome(
    result: str,
    *,
    words: str,
    preview: Fields,
    me: Fields,
    schedule: Fields | None = None,
    similar: list[Fields] | None = None,
    confirm: str | None = None,
    base: str | None = None,
) -> Fields:
    """Return the answer of preview_schedule, create_schedule and update_schedule."""
    zone, now = preview["timezone"], moment(preview["now"])
    slots = [slot_to_json(slot["due_at"], zone, now) for slot in preview["items"][:5]]
    last = None if preview["ends_at"] is None else last_moment(preview["ends_at"], zone)
    found: Fields = {
        "result": result,
        "id": schedule and schedule["id"],
        "key": schedule and schedule["key"],
        "revision": schedule and schedule["revision"],
        "status": schedule and schedule["status"],
        "words": words,
        "timezone": zone,
        "now": local_now(preview["now"], zone),
        "next": slots,
        "ends": None if last is None else format_datetime(last),
        "fires_per_day": preview["fires_per_day"] and round(preview["fires_per_day"], 2),
        "cost_per_day": _cost_to_json(preview["cost_per_day"]),
        "most_cost_per_day": _cost_to_json(preview["most_cost_per_day"]),
        "left": me["left"],
        "warnings": _warnings(preview),
        "similar": similar or [],
        "confirm": confirm,
        "approve": None,
        "say": "",
    }
    if schedule is not None and schedule["paused_by"] == "approval":
        found["approve"] = approval_of(schedule, base)
    found["say"] = say(found, preview["type"], last)
    return found


def _cost_to_json(cost: Fields | None) -> Fields | None:
    """Return a cost with its amount as text, exact."""
    return cost and {**cost, "amount": f"{Decimal(str(cost['amount'])):f}"}


def approval_of(schedule: Fields, base: str | None) -> Fields:
    """Return where a person approves it."""
    command = f"everwhen schedules approve {schedule['id']} --revision {schedule['revision']}"
    return {"url": base and f"{base}/schedules/{schedule['id']}", "command": command}


def _warnings(preview: Fields) -> list[str]:
    found = [
        f"Warning: {text}." if not text.endswith("?") else f"Warning: {text}" for text in preview["warnings"]
    ]
    noted = dict.fromkeys(slot["note"] for slot in preview["items"] if slot.get("note"))
    found += [f"When the clocks change: {note}" for note in noted]
    if preview["needs_approval"]:
        found.append("A person has to approve it before it fires.")
    if not preview["items"]:
        found.append(preview.get("silence") or "Warning: it would never fire.")
    return found


def say(found: Fields, kind: str, last: datetime | None) -> str:
    """Return the sentence for the person: when, from when on, until when, at what cost."""
    zone = found["timezone"]
    first = local_moment(found["next"][0]["at"], zone) if found["next"] else None
    if kind == "one_shot":
        text = (
            f"Once, {first:%A} {first.day} {first:%B %Y} at {first:%H:%M} {zone}" if first else found["words"]
        )
        return f"{text}, in {found['next'][0]['in']}." if first else f"{text}."
    has_time = " at " in found["words"] or found["words"].startswith("At ")
    text = f"{found['words']} {zone}" if has_time else found["words"]
    if first is not None:
        text += f", first {first:%A} {first.day} {first:%B}"
        text += "" if has_time else f" at {first:%H:%M} {zone}"
    if last is not None:
        text += f", until {last.day} {last:%B}"
        text += f" {last.year}" if first is not None and last.year != first.year else ""
    if (cost := found["cost_per_day"]) is not None:
        text += f"; about {amount_text(float(cost['amount']))} {cost['currency']} a day"
        if (most := found["most_cost_per_day"]["amount"]) != cost["amount"]:
            text += f", at most {amount_text(float(most))} {cost['currency']} on one day"
    return f"{text}."


def amount_text(amount: float) -> str:
    """Return an amount for people.

    >>> amount_text(0.4), amount_text(48_000), amount_text(0.0042)
    ('0.40', '48000', '0.0042')
    """
    if amount == int(amount):
        return str(int(amount))
    return f"{amount:.2f}" if amount >= 0.01 else f"{amount:f}".rstrip("0")


def brief(schedule: Fields) -> Fields:
    """Return what a list shows of a schedule."""
    zone = schedule["timezone"]
    return {
        "id": schedule["id"],
        "key": schedule["key"],
        "name": schedule["name"],
        "purpose": schedule["description"],
        "status": schedule["status"],
        "waits_for_approval": schedule["paused_by"] == "approval",
        "words": schedule["description_text"],
        "timezone": zone,
        "paused": _pause_text(schedule),
        "next_local": local_text(schedule["next_run_at"], zone),
        "revision": schedule["revision"],
    }


def _pause_text(schedule: Fields) -> str | None:
    """Say who paused a schedule, since when, until when, and with what note; None: it is not paused."""
    pause, zone = schedule["pause"], schedule["timezone"]
    if pause is None:
        return None
    at, until = (local_text(pause[name], zone) for name in ("at", "until"))
    return describe_pause(pause["by"], pause["name"], at=at, until=until, note=pause["note"])


def budget_to_json(budget: Fields) -> Fields:
    """Return what one budget lets the caller cause: an amount as what runs reported and what is estimated."""
    unit = budget["currency"]
    limits = []
    for one in budget["limits"]:
        is_cost = one["limit"].startswith("cost")
        amounts = ("most", "left", "reported", "estimated") if is_cost else ("most", "left", "used")
        figures = {name: _amount(one[name], unit) if is_cost else int(one[name]) for name in amounts}
        limits.append({"limit": one["limit"], **figures, "refills_at": one["refill_at"]})
    found: Fields = {"of": budget["kind"], "name": budget["name"], "limits": limits}
    if budget["cost_per_run"] is not None:
        found["cost_per_run"] = _amount(budget["cost_per_run"], unit)
    more = ("max_schedules", "schedules", "min_interval", "ttl")
    return {**found, **{name: budget[name] for name in more if budget[name] is not None}}


def _amount(amount: float, unit: str) -> str:
    """
    >>> _amount(0.42, "USD"), _amount(2000000, "TOKENS")
    ('0.42 USD', '2000000 TOKENS')
    """
    return f"{amount:.6f}".rstrip("0").rstrip(".") + f" {unit}"


def run_to_json(job: Fields, log: Fields | None = None) -> Fields:
    """Return one run; all that its program wrote stands in `output`, marked as untrusted."""
    texts = {name: job[name] for name in ("result", "error") if job[name] is not None}
    local = {"slot_local": local_text(job["slot_at"], job["timezone"])} if job.get("timezone") else {}
    if log is not None:
        texts["tail"] = "".join(piece["text"] for piece in log["items"])[-MOST_OUTPUT:]
    return {
        "run_id": job["id"],
        "schedule": job["schedule_id"],
        "status": job["status"],
        "origin": job["origin"],
        "attempt": job["attempt"],
        "slot_at": job["slot_at"],
        **local,
        "started_at": job["started_at"],
        "ended_at": job["ended_at"],
        "reason": job["reason"],
        "output": {"untrusted": True, **texts} if texts else None,
    }


MOST_OUTPUT = 4 << 10
