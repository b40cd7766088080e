"""The counts of a simulation: a time line and totals for each schedule, and the peak of running jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from everwhen.model.events import Event
from everwhen.model.job import Job

COLUMNS = 60


@dataclass(slots=True)
class Line:
    """The counts of one schedule. The columns of its time line count what fired, was skipped or missed, and failed."""

    schedule_id: str
    text: str
    fired: int = 0
    first_at: int | None = None
    last_at: int | None = None
    ended: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    caught_up: int = 0  # slots that were merged into another job
    busy: int = 0  # microseconds of runs
    longest_wait: int = 0  # from due to start
    fired_in: list[int] = field(default_factory=lambda: [0] * COLUMNS)
    passed_in: list[int] = field(default_factory=lambda: [0] * COLUMNS)
    failed_in: list[int] = field(default_factory=lambda: [0] * COLUMNS)

    @property
    def slots(self) -> int:
        return self.fired + self.skipped.total() + self.missed.total() + self.caught_up


class SimulationCounts:
    """Counts what happens in a span; a `Watcher` of the world."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.lines: dict[str, Line] = {}
        self.peak_running = 0
        self.peak_at: int | None = None

    def add(self, schedule_id: str, text: str) -> None:
        self.lines[schedule_id] = Line(schedule_id, text)

    def record(self, event: Event) -> None:
        if event.slot_at is None or event.schedule_id is None:
            return
        line = self.lines[event.schedule_id]
        if event.type == "schedule.skipped" and event.reason is not None:
            line.skipped[event.reason] += event.slot_count
        elif event.type == "schedule.missed" and event.reason is not None:
            line.missed[event.reason] += event.slot_count
        elif event.type == "schedule.caught_up":
            line.caught_up += event.slot_count - 1
        else:
            return
        self._spread(line.passed_in, event)

    def _spread(self, columns: list[int], event: Event) -> None:
        """Distribute a range of slots evenly over the columns from its first to its last."""
        first, last = (event.detail.get(end, event.slot_at) for end in ("first", "last"))
        assert isinstance(first, int) and isinstance(last, int)
        left, right = self._column(first), self._column(last)
        share, rest = divmod(event.slot_count, right - left + 1)
        for column in range(left, right + 1):
            columns[column] += share + (column - left < rest)

    def fired(self, job: Job) -> None:
        """Count a slot that has its job, whether or not a worker takes the job within the span."""
        if job.origin == "retry":
            return
        line = self.lines[job.schedule_id]
        line.fired += 1
        line.fired_in[self._column(job.slot_at)] += 1
        line.first_at = job.slot_at if line.first_at is None else line.first_at
        line.last_at = job.slot_at

    def started(self, job: Job, running: int) -> None:
        line, now = self.lines[job.schedule_id], job.started_at or 0
        line.longest_wait = max(line.longest_wait, now - max(job.due_at, job.not_before or 0))
        if running > self.peak_running:
            self.peak_running, self.peak_at = running, now

    def ended(self, job: Job, status: str, now: int) -> None:
        line = self.lines[job.schedule_id]
        line.ended[status] += 1
        if status in ("failed", "timed_out"):
            line.failed_in[self._column(job.slot_at)] += 1
        if job.started_at is not None:
            line.busy += now - job.started_at

    def _column(self, at: int) -> int:
        share = (at - self.start) * COLUMNS // max(self.end - self.start, 1)
        return min(max(share, 0), COLUMNS - 1)
