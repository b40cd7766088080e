"""Thirty cron expressions as people write them, the zones, and where each walk begins."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

ZONES = ("UTC", "Australia/Sydney", "America/New_York")
# Not on a whole minute, and before both zones' clock changes of the year: a walk of fifty days crosses them.
START = datetime(2026, 2, 20, 3, 17, 30, tzinfo=UTC)
STEPS = 50

# Debian's packages (17 * * * *, 25 6 * * *, 47 6 * * 7, 52 6 1 * *, 09,39, 5-55/10, 59 23, 24 0 8-14, 57 0), the
# manual page crontab(5) (30 4 1,15 * 5, 23 0-23/2, 5 4 * * sun, 15 14 1, 0 22 * * 1-5), and other common expressions.
EVERYDAY = (
    "* * * * *",
    "*/5 * * * *",
    "*/10 * * * *",
    "*/15 * * * *",
    "0,30 * * * *",
    "5-55/10 * * * *",
    "09,39 * * * *",
    "0 * * * *",
    "17 * * * *",
    "0 */2 * * *",
    "0 */6 * * *",
    "23 0-23/2 * * *",
    "*/15 9-17 * * 1-5",
    "0 9-17 * * mon-fri",
    "0 8,12,18 * * *",
    "0 0 * * *",
    "30 2 * * *",
    "25 6 * * *",
    "59 23 * * *",
    "0 9 * * 1-5",
    "0 22 * * 1-5",
    "47 6 * * 7",
    "57 0 * * 0",
    "5 4 * * sun",
    "30 4 1,15 * 5",
)
# Rare ones walk fewer steps, repeatedly, so that no walk leaves the next four years.
STEPS_OF_RARE = {
    "24 0 8-14 * *": 50,
    "52 6 1 * *": 48,
    "15 14 1 * *": 48,
    "0 0 1 */3 *": 16,
    "0 12 1 1 *": 4,
}
# What a program asks for again and again, among them one that is dear to parse; with the steps of a walk.
ASKED = {
    "*/5 * * * *": STEPS,
    "0 * * * *": STEPS,
    "17 * * * *": STEPS,
    "*/15 9-17 * * 1-5": STEPS,
    "0 8,12,18 * * *": STEPS,
    "30 2 * * *": STEPS,
    "0 9 * * 1-5": STEPS,
    "57 0 * * 0": STEPS,
    "15 14 1 * *": 48,
    "0 0 29 2 *": 2,
}


@dataclass(frozen=True, slots=True)
class Case:
    """One expression in one zone: `laps` walks of `steps` instants, all from the same start."""

    text: str
    zone_name: str
    steps: int

    @property
    def name(self) -> str:
        return f"{self.text} {self.zone_name}"

    @property
    def laps(self) -> int:
        return max(1, STEPS // self.steps)

    @property
    def start(self) -> datetime:
        return START.astimezone(timezone_of(self.zone_name))


def cases() -> Iterator[Case]:
    for zone_name in ZONES:
        for text in EVERYDAY:
            yield Case(text, zone_name, STEPS)
        for text, steps in STEPS_OF_RARE.items():
            yield Case(text, zone_name, steps)


def asked_cases() -> Iterator[Case]:
    return (Case(text, "UTC", steps) for text, steps in ASKED.items())


def timezone_of(zone_name: str) -> tzinfo:
    # Several peers have a fast path for datetime.UTC, and none for ZoneInfo("UTC").
    return UTC if zone_name == "UTC" else ZoneInfo(zone_name)
