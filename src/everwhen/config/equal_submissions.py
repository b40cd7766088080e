"""Many schedules in one call: those with equal words are read once.

In a bulk load most schedules differ in their id, and perhaps in their name, alone. What was read of one is then what
would be read of the next, as long as nothing in it is named after the id.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from everwhen.model.declare import Declared, is_named_after_id
from everwhen.model.fast_values import LARGE, replaced
from everwhen.model.kinds import NAME

MOST = 10_000  # different schedules of one call
# Names that are valid whatever else a schedule has; any other is checked with the rest.
_SIMPLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/-]{0,79}")


class EqualSubmissions:
    """What was read in one call, under rules that are the same for all of it."""

    def __init__(self) -> None:
        self._read: dict[tuple[bytes, bool], Declared] = {}

    def read(self, fields: object, schedule_id: str, read: Callable[[], Declared]) -> Declared:
        """Return what `read` returns for a schedule with these fields; it is called only for new words."""
        name = fields.get("name") if isinstance(fields, Mapping) else None
        is_named = isinstance(name, str) and _SIMPLE_NAME.fullmatch(name) is not None
        key = _key_of(fields, without_name=is_named)
        if key is None or not isinstance(schedule_id, str) or not NAME.fullmatch(schedule_id):
            return read()
        known = self._read.get((key, is_named))
        if known is None:
            declared = read()
            if len(self._read) < MOST and not is_named_after_id(declared):
                self._read[key, is_named] = declared
            return declared
        if not is_named:
            return replace(known, schedule_id=schedule_id)
        return replace(
            known,
            schedule_id=schedule_id,
            fields={**known.fields, "name": name},
            definition=replaced(known.definition, name=name),
        )


def _key_of(fields: object, *, without_name: bool) -> bytes | None:
    """Return bytes that are equal only for what means the same; None for what is not plain data, or is large."""
    if not isinstance(fields, Mapping):
        return None
    plain = {name: value for name, value in fields.items() if name != "name" or not without_name}
    try:
        key = marshal.dumps(plain, 2)  # the last version whose bytes depend on the value alone
    except ValueError:
        return None
    return key if len(key) <= LARGE else None
