"""How the schedule of an answer is called, and its zone, beside the id that everything else has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everwhen.views.shape import Object, View, field

if TYPE_CHECKING:
    from everwhen.model.queries import ScheduleLabel


class Labelled(View):
    """The names and the zone of a schedule, also of a deleted one as long as it is on record."""

    schedule_key: str | None = field(about="The key that its creator chose.")
    schedule_name: str | None = field(about="Its name; null: it has none, or this is about no schedule.")
    timezone: str | None = field(about="Its zone, in which people are shown its instants.")


def label_to_json(label: ScheduleLabel | None) -> Object:
    """Return the fields of `Labelled`."""
    if label is None:
        return dict.fromkeys(Labelled.fields())
    return {"schedule_key": label.own_key, "schedule_name": label.name or None, "timezone": label.timezone}
