"""everwhen fires when Debian's cron does, but for two differences, which are spelled out here.

1. Of a fixed entry, Debian runs every reading that a gap swallowed, all in the first minute after it, and
   beside them the reading of that minute itself. everwhen fires once.
2. Debian takes a gap of three hours or more for a correction of the clock and runs nothing of what it
   swallowed. everwhen treats it as any other gap.

Nothing else is forgiven: the runs of every entry are compared minute by minute, with their number.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from everwhen import calculate_next_cron_trigger
from tests.debian_cron.availability import why_not
from tests.debian_cron.clock_changes import (
    APIA_LOST_DAY,
    BERLIN_SPRING,
    CASEY_THREE_HOURS,
    CHANGES,
    FIXED,
    WILD,
    ClockChange,
)
from tests.debian_cron.daemon import run_cron

DEBIAN_TAKES_FOR_A_CORRECTION = timedelta(hours=3)

# Day of month, month and weekday, for the night in which a month ends, on a Saturday.
ORDINARY_DAYS = (
    "1 * 6",
    "1 * 5",
    "*/2 * 6",
    "*/2 * 0",
    "1-7 * */2",
    "28 * */3",
    "1 * *",
    "31 * *",
    "* feb sun",
    "* 2-3 7",
    "* mar sat,sun",
    "28 2 *",
    "29 2 *",
    "* * 6-7",
)
ORDINARY_ENTRIES = (
    *(f"15 0,23 {days}" for days in ORDINARY_DAYS),
    "@weekly",
    "@monthly",
    "@daily",
    "@yearly",
)


@pytest.fixture(autouse=True, scope="module")
def debian_cron_can_be_run() -> None:
    if reason := why_not():
        pytest.skip(f"NOT COMPARED WITH DEBIAN'S CRON: {reason}")


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_everwhen_fires_when_debian_cron_does_around(change: ClockChange) -> None:
    debian = _debian_runs(change)

    fixed = {entry: _as_debian_counts(entry, change) for entry in change.entries(FIXED)}
    wild = {entry: Counter(_slots_around(change, entry)) for entry in change.entries(WILD)}

    assert _readable(debian, change.zone) == _readable(fixed | wild, change.zone)


def test_everwhen_fires_when_debian_cron_does_at_the_end_of_an_ordinary_month() -> None:
    zone = "Europe/Berlin"
    start = datetime(2026, 2, 28, 22, 45, tzinfo=ZoneInfo(zone))
    end = datetime(2026, 3, 1, 0, 45, tzinfo=ZoneInfo(zone))

    debian = _counted(ORDINARY_ENTRIES, run_cron(ORDINARY_ENTRIES, zone, start, end))
    everwhen = {entry: Counter(_slots(entry, zone, start, end)) for entry in ORDINARY_ENTRIES}

    assert _readable(debian, zone) == _readable(everwhen, zone)


@pytest.mark.parametrize(
    ("entry", "debian_runs"),
    [("30 2 * * *", 1), ("15,45 2 * * *", 2), ("0 2,3 * * *", 2), ("0-59/5 2 * * *", 12), ("0 3 * * *", 1)],
)
def test_debian_cron_runs_each_swallowed_reading_where_everwhen_fires_once(
    entry: str, debian_runs: int
) -> None:
    gap_ends_at = BERLIN_SPRING.changes_at

    assert _debian_runs(BERLIN_SPRING)[entry] == {gap_ends_at: debian_runs}
    assert _slots_around(BERLIN_SPRING, entry) == [gap_ends_at]


@pytest.mark.parametrize("change", [CASEY_THREE_HOURS, APIA_LOST_DAY], ids=str)
def test_debian_cron_takes_a_long_gap_for_a_correction_where_everwhen_fires_once(change: ClockChange) -> None:
    (swallowed,) = change.entries(("30 {hour} * * *",))
    gap_ends_at = change.changes_at

    assert gap_ends_at not in _debian_runs(change)[swallowed]
    assert _slots_around(change, swallowed).count(gap_ends_at) == 1


@cache
def _debian_runs(change: ClockChange) -> dict[str, Counter[datetime]]:
    entries = change.entries(FIXED + WILD)
    return _counted(entries, run_cron(entries, change.zone, change.start, change.end))


def _counted(
    entries: tuple[str, ...] | list[str], runs: list[tuple[str, datetime]]
) -> dict[str, Counter[datetime]]:
    return {entry: Counter(at for ran, at in runs if ran == entry) for entry in entries}


def _as_debian_counts(entry: str, change: ClockChange) -> Counter[datetime]:
    """everwhen's slots of a fixed entry; the one slot that ends a gap counts as often as Debian runs it."""
    slots = Counter(_slots_around(change, entry))
    if change.changes_at in slots and change.shift > timedelta():
        slots[change.changes_at] *= _debian_runs_at_the_end_of_the_gap(entry, change)
    return slots


def _debian_runs_at_the_end_of_the_gap(entry: str, change: ClockChange) -> int:
    first_reading_after = change.first_reading + change.shift
    own = _readings(entry, first_reading_after, first_reading_after + timedelta(minutes=1))
    if change.shift >= DEBIAN_TAKES_FOR_A_CORRECTION:
        return own
    return own + _readings(entry, change.first_reading, first_reading_after)


def _readings(entry: str, start: datetime, end: datetime) -> int:
    """How many wall-clock readings from `start` to before `end` match: UTC swallows and repeats none."""
    minute = timedelta(minutes=1)
    return len(_slots(entry, "UTC", start.replace(tzinfo=UTC) - minute, end.replace(tzinfo=UTC) - minute))


def _slots_around(change: ClockChange, entry: str) -> list[datetime]:
    return _slots(entry, change.zone, change.start, change.end)


def _slots(entry: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """everwhen's slots after `start`, up to and including `end`.

    In UTC: Python calls the two readings of a fold equal when both carry the same zone.
    """
    slots: list[datetime] = []
    slot_at = start
    while True:
        slot_at = calculate_next_cron_trigger(entry, slot_at, zone).astimezone(UTC)
        if slot_at > end:
            return slots
        slots.append(slot_at)


def _readable(runs: dict[str, Counter[datetime]], zone: str) -> dict[str, list[str]]:
    """For the eye of whoever reads a failure: local times, with how often where that is not once."""
    return {
        entry: [
            f"{at.astimezone(ZoneInfo(zone)):%d %H:%M%z}" + (f" ×{times}" if times > 1 else "")
            for at, times in sorted(counts.items())
            if times
        ]
        for entry, counts in runs.items()
    }
