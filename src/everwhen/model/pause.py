"""The pause of a schedule or of the system: who paused it, since when, until when, and with what note."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from everwhen.model.events import Event
from everwhen.model.instants import format_instant
from everwhen.model.one_line import one_line
from everwhen.model.schedule import State
from everwhen.timetable.civil_time import Zone

_KINDS = {
    "person": "by a person",
    "token": "by a token",
    "config": "by enabled: false in the configuration",
    "approval": "until it is approved",
    "budget": "by a spent budget",
}
NO_NAMES: Mapping[str, str] = MappingProxyType({})
_NO_NOTES = (None, "paused", "budget")
USER = "user:"  # of the machine, whom releases before 0.3 recorded as the token `local`
_LOCAL, _RUN = "token:local", "token:agent:"


class Pause(NamedTuple):
    """`by`: person, token, config, approval or budget. `actor`: who it was, as recorded; `name`: for people."""

    by: str | None
    actor: str | None = None
    name: str | None = None
    at: int | None = None
    until: int | None = None
    note: str | None = None

    def text(self, zone: Zone) -> str:
        """Describe the pause, with its instants in a zone.

        >>> from everwhen.timetable.civil_time import zone
        >>> Pause("token", "token:tok_1", "mira", 0, 60_000_000, "moving house").text(zone("UTC"))
        'by mira since Thu 1970-01-01 00:00:00 UTC, until Thu 1970-01-01 00:01:00 UTC (moving house)'
        """
        at, until = (
            None if instant is None else format_instant(instant, zone) for instant in (self.at, self.until)
        )
        return describe_pause(self.by, self.name, at=at, until=until, note=self.note)


def describe_pause(
    by: str | None, name: str | None, *, at: str | None, until: str | None, note: str | None
) -> str:
    """Describe a pause whose instants are text already."""
    named = f"by {one_line(name, 100)}" if name else None
    if by == "approval":
        who = f"{_KINDS[by]}, asked for {named}" if named else f"{_KINDS[by]},"
    else:
        who = named or _KINDS.get(by or "", "")
    text = f"{who} since {at}".lstrip() if at else who
    if until:
        text = f"{text}, until {until}" if text else f"until {until}"
    return f"{text} ({one_line(note, 200)})".lstrip() if note else text


def pause_of(state: State, event: Event | None, names: Mapping[str, str] = NO_NAMES) -> Pause:
    """Return the pause of a schedule; `event` began it, `names` are those of tokens.

    The row knows the present end, and a reason that is newer than the note.
    """
    note = (
        state.status_reason
        if state.status_reason not in _NO_NOTES and state.paused_by != "approval"
        else None
    )
    if event is None:
        return Pause(state.paused_by, until=state.resume_at, note=note)
    return began_by(event, names)._replace(by=state.paused_by, until=state.resume_at, note=note)


def began_by(event: Event, names: Mapping[str, str] = NO_NAMES) -> Pause:
    """Return what an event says of the pause that it began, of a schedule or of the system."""
    actor, by = actor_in(event), event.detail.get("by")
    name = None if actor is None else names.get(actor, name_in(actor))
    until, note = event.detail.get("until"), event.detail.get("note")
    return Pause(
        by if isinstance(by, str) and by in _KINDS else None,
        actor,
        name,
        at=event.at,
        until=until if isinstance(until, int) else None,
        note=note if isinstance(note, str) else None,
    )


def actor_in(event: Event) -> str | None:
    """Return who did what an event records: some events have it in their detail; None: nobody in particular."""
    found = event.actor or event.detail.get("by")
    return found if isinstance(found, str) and found not in _KINDS else None


def name_in(actor: str) -> str | None:
    """Return the name that stands in an actor itself; a token has one of its own.

    >>> name_in("user:ada"), name_in("shop"), name_in("token:tok_1"), name_in("token:agent:bot")
    ('ada', 'shop', None, 'a run of bot')
    """
    if actor == _LOCAL:
        return "a user of the machine"
    if actor.startswith(_RUN):
        return f"a run of {actor.removeprefix(_RUN)}"
    return None if actor.startswith("token:") else actor.removeprefix(USER)
