"""The counts of a row, of shared limits and of lines, recounted from the jobs; and jobs in impossible states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from everwhen.model.history import Breakers, ScheduleHistory
from everwhen.model.job import FINAL, Job, Line
from everwhen.model.limits import Breaker, Limit, Transition
from everwhen.verify.entries import LedgerFault, count_faults, fault_of


@dataclass(slots=True)
class JobCounts:
    """The sums over the jobs of one history, and over those of all histories for the limits that they share."""

    slots: int = 0
    jobs: int = 0
    outstanding: int = 0
    running: int = 0
    waiting: int = 0
    retries_waiting: int = 0
    highest_number: int = 0
    firings: int = 0
    running_in: Counter[Line] = field(default_factory=Counter)
    behind: Counter[Line] = field(default_factory=Counter)
    first_in_line: Counter[Line] = field(default_factory=Counter)
    taken: Counter[str] = field(default_factory=Counter)
    running_of: Counter[str] = field(default_factory=Counter)
    probes: set[str] = field(default_factory=set)  # outstanding ones

    def begin(self) -> None:
        """Reset the sums for another history."""
        self.outstanding = self.running = self.waiting = self.retries_waiting = 0
        self.highest_number = self.firings = 0
        self.running_in.clear()
        self.behind.clear()
        self.first_in_line.clear()

    def add(self, job: Job) -> None:
        self.jobs += 1
        self.firings += not job.retry
        if job.number > self.highest_number:
            self.highest_number = job.number
        is_unreleased = job.node is not None and job.released_at is None
        if not is_unreleased and job.status in FINAL:
            return  # the case of nearly every job
        if is_unreleased:
            self.running += job.origin != "backfill"
            if job.capacity_key is not None:
                self.running_of[job.capacity_key] += 1
        if job.is_outstanding:
            self._add_outstanding(job)
        self._add_to_line(job)

    def _add_outstanding(self, job: Job) -> None:
        self.outstanding += job.origin != "backfill"
        if job.is_probe:
            self.probes.add(job.job_id)
        if job.is_counted:
            self.taken.update(key for key in (job.guard_key, job.capacity_key) if key is not None)
        if job.status == "queued" and job.not_before is not None and not job.fence:
            self.waiting += 1
            self.retries_waiting += job.origin == "retry"

    def _add_to_line(self, job: Job) -> None:
        """Count a job in its line; one that is ready, runs, or keeps its worker will make the next one ready."""
        if job.line is not None:
            self.running_in[job.line] += job.status == "running"
        if job.status == "queued" and job.ready_at is None:
            self.behind[job.line or "own"] += 1
            return
        if job.line is not None and job.line != "own":
            self.first_in_line[job.line] += 1
        if job.origin != "backfill":
            self.first_in_line["own"] += 1

    def check_limits(self, limits: Sequence[Limit]) -> Iterator[LedgerFault]:
        """Check the rows that schedules share against the jobs of all schedules."""
        rows = {limit.key: limit for limit in limits}
        for key in sorted(rows.keys() | self.taken.keys() | self.running_of.keys()):
            row = rows.get(key) or Limit(key)
            for word, on_row, counted in (
                ("outstanding", row.outstanding, self.taken[key]),
                ("running", row.running, self.running_of[key]),
            ):
                if on_row != counted:
                    sentence = f"limit {key}: the row says {on_row} {word}, the jobs make {counted}"
                    yield LedgerFault("counter", "", key, None, sentence)


def check_counters(history: ScheduleHistory, counts: JobCounts, *, is_whole: bool) -> Iterator[LedgerFault]:
    """Check the columns of the row against the jobs of its history. `is_whole`: retention has deleted none."""
    yield from _check_lines(history, counts)
    state = history.state
    if state is None:
        return
    yield from count_faults(history, "outstanding", state.outstanding, counts.outstanding)
    yield from count_faults(history, "running_jobs", state.running_jobs, counts.running)
    yield from count_faults(history, "waiting", state.waiting, counts.waiting)
    yield from count_faults(history, "retries_waiting", state.retries_waiting, counts.retries_waiting)
    highest = counts.highest_number
    if state.fire_count < highest:
        sentence = f"fire_count: the row says {state.fire_count}, the highest number of a job is {highest}"
        yield fault_of(history, "counter", None, sentence)
    elif is_whole and state.firings != counts.firings:
        sentence = f"fire_count: the row says {state.firings} firings, the jobs make {counts.firings}"
        yield fault_of(history, "counter", None, sentence)


def _check_lines(history: ScheduleHistory, counts: JobCounts) -> Iterator[LedgerFault]:
    for line, running in counts.running_in.items():
        if running > 1:
            sentence = f"{running} jobs of the line {line} run at once that must run one after another"
            yield fault_of(history, "job", None, sentence)
    for line, behind in counts.behind.items():
        if not counts.first_in_line[line]:
            text = f"{behind} queued jobs of the line {line} stand behind nobody: they will never be ready"
            yield fault_of(history, "job", None, text)


def check_job(history: ScheduleHistory, job: Job, *, is_steady: bool) -> Iterator[LedgerFault]:
    """Check for a job in a state that no transition leads to. `is_steady`: the clock was never put back."""
    if is_steady and job.created_at < job.due_at and job.origin in ("schedule", "catch_up"):
        yield _impossible(history, job, "fired before it was due")
    if job.status in FINAL:
        if job.ended_at is None or job.released_at is None or not job.attempt:
            yield from _check_ended(history, job)
    else:
        yield from _check_outstanding(history, job)


def _check_ended(history: ScheduleHistory, job: Job) -> Iterator[LedgerFault]:
    may_be_held = job.status in ("cancelled", "timed_out")  # its worker continues until it is killed
    for is_wrong, sentence in (
        (job.ended_at is None, f"is {job.status} and never ended"),
        (job.status != "cancelled" and not job.attempt, f"is {job.status} and never started"),
        (job.released_at is None and not (may_be_held and job.node), "is over and was never let go of"),
    ):
        if is_wrong:
            yield _impossible(history, job, sentence)


def _check_outstanding(history: ScheduleHistory, job: Job) -> Iterator[LedgerFault]:
    is_running = job.status == "running"
    for is_wrong, sentence in (
        (job.ended_at is not None, f"is {job.status} and has ended"),
        (job.released_at is not None, f"is {job.status} and was let go of"),
        (not is_running and job.node is not None, "is queued and belongs to a node"),
        (is_running and (job.node is None or job.started_at is None), "runs nowhere"),
        (is_running and not job.attempt, "runs in no attempt"),
        (is_running and not job.is_counted, "runs and takes no place"),
        (is_running and job.ready_at is not None, "runs and may be claimed"),
    ):
        if is_wrong:
            yield _impossible(history, job, sentence)


def _impossible(history: ScheduleHistory, job: Job, sentence: str) -> LedgerFault:
    return fault_of(history, "job", job.slot_at, f"{job.job_id} {sentence}")


def check_breakers(breakers: Breakers, probes: Collection[str], *, is_whole: bool) -> Iterator[LedgerFault]:
    """Check every breaker against its transitions and the outstanding jobs: one whose probe is over never moves again.

    `probes`: the outstanding ones; `is_whole`: retention has deleted no transition.
    """
    latest = {transition.key: transition for transition in breakers.latest}
    for breaker in breakers.rows:
        for sentence in _faults(breaker, latest.get(breaker.key), probes, is_whole):
            yield LedgerFault("breaker", "", breaker.key, None, f"breaker {breaker.key} {sentence}")


def _faults(
    breaker: Breaker, last: Transition | None, probes: Collection[str], is_whole: bool
) -> Iterator[str]:
    state, probe = breaker.state, breaker.probe_job_id
    if last is not None and last.to_state != state:
        yield f"is {state}, and its last change on record made it {last.to_state}"
    if last is None and state != "closed" and is_whole:
        yield f"is {state}, and no change of it is on record"
    if state == "half_open" and probe is None:
        yield "is half open and has no probe"
    elif state == "half_open" and probe not in probes:
        yield f"waits for its probe {probe}, which is not outstanding: it will never move"
    elif state != "half_open" and probe is not None:
        yield f"is {state} and has a probe, {probe}"
    if (state == "closed") == (breaker.opened_at is not None):
        yield f"is {state}, and says it opened at {breaker.opened_at}"
