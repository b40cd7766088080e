"""What a reload of the configuration file changed, or would change, as it is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from everwhen.views.shape import View, When, each, field
from everwhen.views.values import Object, when_text

if TYPE_CHECKING:
    from everwhen.operations import apply, diff


class Reloaded(View):
    """What it changed, by schedule id."""

    created: list[str] = field(via=list)
    changed: list[str] = field(via=list)
    removed: list[str] = field(via=list)
    switched: list[str] = field(via=list)
    sections: list[str] = field(via=list, about="What changed besides schedules: `notify[0]`, `workflows.1`.")


class KeyChange(View):
    key: str
    before: object
    after: object


class Firings(View):
    """The firings of the next 7 days."""

    kept: int
    moved: list[list[When]] = field(via=each(each(when_text)))
    vanished: list[When] = field(via=each(when_text))
    appeared: list[When] = field(via=each(when_text))
    until: When | None = field(about="They were worked out up to here, because there are very many.")


class ScheduleChange(View):
    schedule_id: str
    what: Literal["created", "changed", "removed"]
    place: str | None = field(lambda change: change.place or None)
    keys: list[KeyChange] = field(via=each(KeyChange.of))
    firings: Firings = field(via=Firings.of)


class Diff(View):
    items: list[ScheduleChange]
    total: int
    sections: list[KeyChange] = field(about="What would change in workflows, messages, notify and api.")


def diff_to_json(changes: Sequence[diff.ScheduleChange], sections: Sequence[apply.KeyChange]) -> Object:
    return Diff.made(
        items=[ScheduleChange.of(change) for change in changes],
        total=len(changes),
        sections=[KeyChange.of(change) for change in sections],
    )
