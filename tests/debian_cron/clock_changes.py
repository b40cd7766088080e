"""The days that are compared, and the cron entries that are aimed at the hour that changes on them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

BEFORE = timedelta(hours=2, minutes=15)  # most changes are at two o'clock: this shows the midnight before
AFTER = timedelta(hours=1, minutes=15)

# {hour} is the first hour of which readings are swallowed or repeated, {next} the one after it; {day},
# {month} and {weekday} are those of that hour, {other} is a weekday that it is not.
FIXED = (
    "30 {hour} * * *",
    "0 {hour} * * *",
    "15,45 {hour} * * *",
    "0 {next} * * *",
    "0 {hour},{next} * * *",
    "0 0-4 * * *",
    "0-59/30 {hour} * * *",
    "0-59/5 {hour} * * *",
    "20,40 0-23 * * *",
    "5 0-23/2 * * *",
    "30 {hour} * * {weekday}",
    "30 {hour} * * {other}",
    "30 {hour} {day} {month} *",
    "30 {hour} {day} * {other}",
    "45 {hour} */2 * {weekday}",
    "@daily",
)
WILD = (
    "*/15 * * * *",
    "0 * * * *",
    "30 * * * *",
    "*/5 {hour} * * *",
    "*/30 {hour} * * *",
    "45 */2 * * *",
    "*/20 {hour} * * {weekday}",
    "@hourly",
)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """One change of one zone's offset, and the hours around it."""

    zone: str
    changes_at: datetime

    @property
    def start(self) -> datetime:
        return self.changes_at - BEFORE

    @property
    def end(self) -> datetime:
        return self.changes_at + max(-self.shift, timedelta()) + AFTER

    @property
    def shift(self) -> timedelta:
        """Positive for a gap, negative for a fold."""
        return self._offset(self.changes_at) - self._offset(self.changes_at - timedelta(seconds=1))

    @property
    def first_reading(self) -> datetime:
        """The first reading, without zone, that is swallowed or read twice."""
        reading_after = self.changes_at.replace(tzinfo=None) + self._offset(self.changes_at)
        return reading_after - max(self.shift, timedelta())

    def entries(self, patterns: tuple[str, ...]) -> list[str]:
        reading = self.first_reading
        weekday = reading.isoweekday() % 7
        fields = {
            "hour": reading.hour,
            "next": (reading.hour + 1) % 24,
            "day": reading.day,
            "month": reading.month,
            "weekday": weekday,
            "other": (weekday + 2) % 7,
        }
        return [pattern.format(**fields) for pattern in patterns]

    def __str__(self) -> str:
        return f"{self.zone} {self.first_reading:%Y-%m-%d} {'gap' if self.shift > timedelta() else 'fold'}"

    def _offset(self, instant: datetime) -> timedelta:
        offset = instant.astimezone(ZoneInfo(self.zone)).utcoffset()
        assert offset is not None
        return offset


def _change(zone: str, changes_at: str) -> ClockChange:
    return ClockChange(zone, datetime.fromisoformat(changes_at).replace(tzinfo=UTC))


BERLIN_SPRING = _change("Europe/Berlin", "2026-03-29T01:00")
CASEY_THREE_HOURS = _change("Antarctica/Casey", "2020-10-03T16:01")
APIA_LOST_DAY = _change("Pacific/Apia", "2011-12-30T10:00")

CHANGES = (
    BERLIN_SPRING,
    _change("Europe/Berlin", "2026-10-25T01:00"),
    _change("America/New_York", "2026-03-08T07:00"),
    _change("America/New_York", "2026-11-01T06:00"),
    # Half an hour.
    _change("Australia/Lord_Howe", "2026-10-03T15:30"),
    _change("Australia/Lord_Howe", "2026-04-04T15:00"),
    # At midnight: the swallowed and the repeated readings belong to another day than the minute beside them.
    _change("Africa/Cairo", "2026-04-23T22:00"),
    _change("Africa/Cairo", "2026-10-29T21:00"),
    # Two hours.
    _change("Antarctica/Troll", "2026-03-29T01:00"),
    _change("Antarctica/Troll", "2026-10-25T01:00"),
    # No daylight saving: the zone itself was moved, by half an hour, three hours, and a day.
    _change("America/Caracas", "2016-05-01T07:00"),
    CASEY_THREE_HOURS,
    _change("Antarctica/Casey", "2020-03-07T16:00"),
    APIA_LOST_DAY,
)
