"""The WHERE clause of lists of schedules, and the order of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_lowercase, ascii_uppercase

from everwhen.model.queries import ScheduleFilter, ScheduleOrder

# Both databases lower the letters of ASCII only, so a text that is searched for has to keep its other letters.
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_COLUMNS = ("status", "group", "owner", "type", "target", "paused_by", "token_id")
_CONDITIONS = {
    "is_failing": "failed_slots > 0",
    "is_running": "running_jobs > 0",
    "is_held": "held_slot_at IS NOT NULL",
    "is_waiting": "paused_by = 'approval'",  # idx_schedules_waiting
}
# A row that has no value of the column comes last, whichever way the others are ordered.
_ORDERS: Mapping[ScheduleOrder, str] = {
    "created_at": "row_id",
    "name": "lower(schedule_id)",
    "status": "status",
    "owner": "coalesce(owner, '')",
    "next_run_at": "next_run_at",
    "last_fired_at": "last_fired_at",
}


def lowered(text: str) -> str:
    """Return a text in the letters that the databases' `lower` makes."""
    return text.translate(_LOWER)


def filtered(wanted: ScheduleFilter) -> tuple[str, dict[str, object]]:
    """Return the condition that a filter is, and the values of its parameters."""
    given = given_columns(wanted)
    conditions, values = [f'"{name}" = :{name}::text' for name in given], dict[str, object](given)
    if wanted.status not in (None, "active"):
        conditions.append("status <> 'active'")  # what idx_schedules_status says of its rows
    conditions += [text for name, text in _CONDITIONS.items() if getattr(wanted, name)]
    if wanted.uids is not None:
        conditions.append("uid = ANY(:uids::texts)")  # the unique key
        values["uids"] = wanted.uids
    if wanted.text is not None:
        # Both in one look, since every row is looked at; behind the line break the id begins.
        conditions.append("strpos(lower(name || '\n' || schedule_id), :text::text) > 0")
        values["text"] = lowered(wanted.text)
    return " AND ".join(conditions) or "TRUE", values


def given_columns(wanted: ScheduleFilter) -> dict[str, str]:
    """Return the conditions on columns, by column name."""
    values = {name: getattr(wanted, name) for name in _COLUMNS}
    return {name: value for name, value in values.items() if value is not None}


def ordered(order: ScheduleOrder, *, is_descending: bool) -> str:
    """Return the ORDER BY of a list; rows that are equal are ordered by their row_id."""
    column, way = _ORDERS[order], "DESC" if is_descending else "ASC"
    empty_last = f"{column} IS NULL, " if order in ("next_run_at", "last_fired_at") else ""
    return f"{empty_last}{column} {way}, row_id {way}"
