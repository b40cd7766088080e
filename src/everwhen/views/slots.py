"""Slots as they are answered: those to come, those that were, and why."""

from __future__ import annotations

from everwhen.operations.record import SlotEntry
from everwhen.operations.upcoming import UpcomingSlot
from everwhen.operations.why import Evidence, Explanation
from everwhen.views.jobs import job_to_json
from everwhen.views.values import Object, cursor_of, when_text


def upcoming_to_json(slot: UpcomingSlot) -> Object:
    return {
        "schedule_id": slot.schedule_id,
        "slot_at": when_text(slot.slot_at),
        "due_at": when_text(slot.due_at),
        "skip_reason": slot.skip_reason,
        "is_estimate": slot.is_estimate,
        "hold_reason": slot.hold_reason,
        "until": when_text(slot.until),
    }


def upcoming_list(slots: list[UpcomingSlot], sentence: str | None) -> Object:
    items = [upcoming_to_json(slot) for slot in slots]
    return {"items": items, "total": len(items), "sentence": sentence}


def slot_to_json(entry: SlotEntry) -> Object:
    return {
        "slot_at": when_text(entry.slot_at),
        "fate": entry.fate,
        "reason": entry.reason,
        "count": entry.count,
        "first_at": when_text(entry.first_at),
        "last_at": when_text(entry.last_at),
        "job": None if entry.job is None else job_to_json(entry.job),
    }


def slots_page(found: list[SlotEntry], *, limit: int) -> Object:
    """A page of slots that was asked for with that limit."""
    following = cursor_of(found[-1].slot_at) if len(found) == limit else None
    return {"items": [slot_to_json(one) for one in found], "total": len(found), "next_cursor": following}


def explanation_to_json(schedule_id: str, found: Explanation) -> Object:
    """What became of a slot of the schedule that was asked for by that id."""
    return {
        "schedule_id": schedule_id,
        "timezone": found.zone.name,
        "slot_at": when_text(found.slot_at),
        "fate": found.fate,
        "reason": found.reason,
        "sentence": found.sentence,
        "evidence": _evidence(found.evidence),
        "next_run_at": when_text(found.next_run_at),
    }


def _evidence(found: Evidence | None) -> list[Object]:
    """What the answer rests on, each piece under the word for what it is."""
    if found is None:
        return []
    revision = {"revision": found.revision.revision, "cause": found.revision.cause}
    fields: list[Object] = [revision] if found.is_in_force else []
    fields += [{"job": job_to_json(job)} for job in found.jobs]
    fields += [
        {"event": one.event.type, "at": when_text(one.event.at), "reason": one.event.reason, "id": one.id}
        for one in found.events
    ]
    fields += [
        {"transition": one.to_state, "at": when_text(one.at), "reason": one.reason}
        for one in found.transitions
    ]
    return fields + [{"scheduler": node.node} for node in found.schedulers]
