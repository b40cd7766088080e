"""`events.md`: the types of events, and every reason with its sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping

from everwhen.model import events, reasons
from everwhen.model.alerts import CLASSES
from tools.reference.markdown import code, prose, table
from tools.reference.markdown import page as make_page

INTRODUCTION = """Events are in `everwhen audit`, in `GET /api/v1/audit/`, in the stream `GET
/api/v1/events/stream/`, and go to the listeners of Python. Recorded ones are rows of `audit_events`; the others
are read from the rows of jobs and schedules. A rule of `notify` can name any recorded one; those with a
severity open an alert."""
REASONS = """A slot that did not fire has a reason. `everwhen why SCHEDULE` shows its sentence; the words in
italics are filled in."""


def page() -> str:
    alerts = {
        name: f"{one.severity}{'' if one.is_problem else ', not among `problems`'}"
        for name, one in CLASSES.items()
    }
    recorded = ((code(name), prose(about), alerts.get(name, "")) for name, about in events.MEANINGS.items())
    derived = ((code(name), prose(about)) for name, about in events.DERIVED_MEANINGS.items())
    return make_page(
        "Events and reasons",
        INTRODUCTION,
        "## Recorded events",
        table(("event", "meaning", "alert"), recorded),
        "## Events that are read from rows",
        table(("event", "meaning"), derived),
        "## Reasons",
        REASONS,
        "### A slot was skipped (`schedule.skipped`)",
        _reasons(reasons.SKIPPED),
        "### A slot is held (`schedule.held`)",
        _reasons(reasons.HELD),
        "### A slot was missed (`schedule.missed`)",
        _reasons(reasons.MISSED),
        "### A slot lies in a span",
        "Slots of a time in which the schedule was not active have no entry of their own: the span is the entry.",
        _reasons(reasons.SPANS),
        "### A job was cancelled (`job.cancelled`)",
        _reasons(reasons.CANCELLED),
        "### A schedule would not fire now (`check_schedule`)",
        _reasons(reasons.CHECKED),
    )


def _reasons(texts: Mapping[str, str]) -> str:
    return table(("reason", "sentence"), ((code(name), _filled(text)) for name, text in texts.items()))


def _filled(text: str) -> str:
    """Return a sentence with the names of its figures in italics."""
    plain = prose(text)
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: "*" + found[1].replace("_", " ") + "*", plain)
