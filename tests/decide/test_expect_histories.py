"""`expect` over generated histories: no false alarm and no missed one, by an oracle that knows only the record.

The oracle knows when the schedule was active, when everwhen was down, and which runs succeeded when. It lists the slots
by the clock on the wall, and asks of each whether a success followed in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.model.instants import instant_of
from everwhen.model.outcome import Outcome
from everwhen.testing.manual import manual_scheduler

MINUTE = 60_000_000
START = "2026-03-28T00:00:00Z"  # two days before Europe's clocks change
FAILED, SUCCEEDED = Outcome("failed", error="no"), Outcome("succeeded")
Act = Literal["run", "fail", "pause", "resume", "down", "blip", "system", "restart"]


@dataclass(frozen=True)
class Step:
    act: Act
    minutes: int


@dataclass(frozen=True)
class Setting:
    hour: int
    minute: int
    zone: str
    window: tuple[int, int] | None
    grace: int  # minutes


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(
            ("run", "run", "fail", "fail", "fail", "pause", "resume", "down", "blip", "system", "restart")
        ),
        st.integers(3, 1_500),
    ),
    min_size=2,
    max_size=12,
)
SETTINGS = st.builds(
    Setting,
    st.sampled_from((0, 1, 2, 2, 3, 7, 9)),
    st.sampled_from((0, 15, 30, 59)),
    st.sampled_from(("UTC", "Europe/Berlin", "Australia/Lord_Howe")),
    st.sampled_from((None, (8, 18), (0, 4))),
    st.integers(1, 300),
)


def slots(setting: Setting, start: int, end: int) -> list[int]:
    """Return the open slots in (start, end], twice a day by the clock on the wall.

    A reading that does not exist is the first instant after the gap (T8); of one that comes twice the first counts.
    """
    zone = ZoneInfo(setting.zone)
    day = datetime.fromtimestamp(start / 1e6, UTC).date() - timedelta(days=1)
    found = set()
    while instant_of(datetime(day.year, day.month, day.day, tzinfo=UTC)) <= end + 86_400_000_000:
        for hour in (setting.hour % 12, setting.hour % 12 + 12):
            reading = datetime(day.year, day.month, day.day, hour, setting.minute)
            moment = reading.replace(tzinfo=zone).astimezone(UTC)
            if moment.astimezone(zone).replace(tzinfo=None) != reading:
                moment = end_of_gap(moment, zone)
            if is_open(moment.astimezone(zone), setting) and start < instant_of(moment) <= end:
                found.add(instant_of(moment))
        day += timedelta(days=1)
    return sorted(found)


def end_of_gap(moment: datetime, zone: ZoneInfo) -> datetime:
    at = moment - timedelta(hours=3)
    while at.astimezone(zone).utcoffset() == (moment - timedelta(hours=3)).astimezone(zone).utcoffset():
        at += timedelta(minutes=1)
    return at


def is_open(moment: datetime, setting: Setting) -> bool:
    return setting.window is None or setting.window[0] <= moment.hour < setting.window[1]


class Span(NamedTuple):
    """A time in which a success was expected. `is_new`: what was silent before it is over with its pause."""

    start: int
    end: int
    is_new: bool


class Played(NamedTuple):
    """What happened: when the clock of `expect` ran, the downtimes, the successes, and the silences on record."""

    watched: list[Span]
    down: list[tuple[int, int]]
    ends: list[int]
    silences: list[int]


def play(steps: list[Step], setting: Setting, expect: dict[str, str]) -> Played:
    s = manual_scheduler(START)
    ends: list[int] = []  # of successes
    fails = False

    def outcome(_claimed: object) -> Outcome:
        if not fails:
            ends.append(s.clock.now())
        return FAILED if fails else SUCCEEDED

    s.outcome = outcome
    hours = f"{setting.hour % 12},{setting.hour % 12 + 12}"
    keys = {} if setting.window is None else {"only_between": "{:02}:00-{:02}:00".format(*setting.window)}
    s.add("s", cron=f"{setting.minute} {hours} * * *", timezone=setting.zone, expect=expect, **keys)
    watched: list[Span] = []  # in which the clock of `expect` ran
    is_new = True
    down: list[tuple[int, int]] = []
    since: int | None = s.clock.now()
    for step in steps:
        began, status = s.clock.now(), s.state("s").status
        length = f"{step.minutes}m"
        if step.act in ("run", "fail"):
            fails = step.act == "fail"
            s.advance(length)
        elif step.act == "pause" and status == "active":
            s.pause("s")
            watched.append(Span(since or 0, began, is_new))
            since, is_new = None, True
            s.advance(length)
        elif step.act == "resume" and status == "paused":
            s.resume("s")
            since = began
            s.advance(length)
        elif step.act == "system":
            s.pause_system()
            s.advance(length)
            s.resume_system()
            if since is not None:
                watched.append(Span(since, began, is_new))
                since, is_new = s.clock.now(), False
        elif step.act in ("down", "blip"):
            s.beat()
            s.sleep(length if step.act == "down" else f"{step.minutes}s")
            s.restart()
            down.append((began, s.clock.now()))
            s.step()
        elif step.act == "restart":
            s.restart()
            s.step()
    if since is not None:
        watched.append(Span(since, s.clock.now(), is_new))
    found = [one.at for one in s.events("s", "schedule.silent")]
    s.close()
    return Played(watched, down, ends, found)


@settings(max_examples=50, deadline=None)
@given(STEPS, SETTINGS)
def test_a_silence_is_recorded_exactly_where_a_slot_has_no_success_in_time(
    steps: list[Step], setting: Setting
) -> None:
    played = play(steps, setting, {"each": "slot", "grace": f"{setting.grace}m"})
    assert played.silences == silences(setting, played.watched, played.down, played.ends)


@settings(max_examples=50, deadline=None)
@given(STEPS, SETTINGS, st.integers(60, 1_800))
def test_a_silence_is_recorded_exactly_where_a_span_of_open_time_has_no_success(
    steps: list[Step], setting: Setting, within: int
) -> None:
    played = play(steps, setting, {"within": f"{within}m", "grace": f"{setting.grace}m"})
    assert played.silences == silences_within(setting, within, played)


def silences_within(setting: Setting, within: int, played: Played) -> list[int]:
    """Return the same where a success is asked for in every span of so many open minutes."""
    found: list[int] = []
    is_silent = False
    for span in played.watched:
        is_silent = is_silent and not span.is_new
        met = span.start
        while True:
            if is_silent:
                later = [at for at in played.ends if found[-1] < at <= span.end]
                if not later:
                    break
                met, is_silent = min(later), False
            deadline = after_open_minutes(setting, met, within) + setting.grace * MINUTE
            for first, last in played.down:
                if met <= first < deadline:
                    deadline += last - first
            done = [at for at in played.ends if met < at <= min(deadline, span.end)]
            if done:
                met = min(done)
            elif deadline > span.end:
                break
            else:
                found.append(deadline)
                is_silent = True
    return found


def after_open_minutes(setting: Setting, start: int, minutes: int) -> int:
    zone = ZoneInfo(setting.zone)
    at, open_time = start, minutes * MINUTE
    while open_time:
        step = min(MINUTE - at % MINUTE, open_time)  # windows open and close at whole minutes
        open_time -= step * is_open(datetime.fromtimestamp(at / 1e6, zone), setting)
        at += step
    return at


def silences(
    setting: Setting, watched: list[Span], down: list[tuple[int, int]], ends: list[int]
) -> list[int]:
    """Return when a silence is to be recorded: the first deadline of each silence, while the clock runs."""
    found: list[int] = []
    is_silent = False
    for span in watched:
        is_silent = is_silent and not span.is_new
        met = span.start  # the start of the clock, or the last success
        for due_at in slots(setting, span.start, span.end):
            if is_silent:
                later = [at for at in ends if max(met, found[-1]) < at <= span.end]
                if not later:
                    break
                met, is_silent = min(later), False
            if due_at <= met:
                continue
            fires_at = next((last for first, last in down if first < due_at <= last), due_at)
            is_late = fires_at - due_at > 4.5 * MINUTE  # its `misfire_grace`, without the time of a start
            if is_late or not is_open(
                datetime.fromtimestamp(fires_at / 1e6, ZoneInfo(setting.zone)), setting
            ):
                continue
            deadline = fires_at + setting.grace * MINUTE
            for first, last in down:
                if fires_at <= first < deadline:
                    deadline += last - first
            done = [at for at in ends if due_at <= at <= deadline]
            if done:
                met = max(met, min(done))
            elif deadline > span.end:
                break
            else:
                found.append(deadline)
                is_silent = True
        if is_silent and any(found[-1] < at <= span.end for at in ends):
            is_silent = False
    return found
