"""The ledger checker, after Jepsen's test of Chronos: every slot has exactly one entry, and counts agree.

It recomputes the slots from revisions, spans and recorded ends, with `timetable` alone, and matches each with one job,
skip, miss, or place in the count of a range event. It never calls the code that decides slots: a checker that shared
that code would share its mistakes.

The kinds of fault:
- `extra`: an entry without a slot; `lost`: a slot without an entry; `doubled`: a slot with two entries;
- `range`: a range event whose count does not fit;
- `state`: a row that does not follow from its record; `counter`: a number that does not follow from the jobs;
- `job`: a job in an impossible state, or one that will never be ready;
- `breaker`: a breaker that does not follow from its record, or will never move;
- `reason`: a reason of a skip, a miss or a hold that the record shows to be false.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from everwhen.model.history import History, ScheduleHistory
from everwhen.model.instants import MINUTE
from everwhen.model.schedule import Status
from everwhen.verify.budgets import BudgetCounts
from everwhen.verify.chains import check_chain
from everwhen.verify.circumstances import Occupied
from everwhen.verify.counters import JobCounts, check_breakers, check_counters, check_job
from everwhen.verify.entries import Entries, Kind, LedgerFault, entries_of, fault_of
from everwhen.verify.outcomes import Outcomes, check_outcomes
from everwhen.verify.periods import SystemSpan, periods_of, reach_of, system_spans
from everwhen.verify.reasons import Background, background_of, check_reasons
from everwhen.verify.slots import check_grid

__all__ = ["LedgerFault", "LedgerReport", "check_ledger"]

FAULTS_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """The result of a check; `fault_count` includes the faults beyond the first thousand, which are not kept.

    `reasons`: how many slots have a reason that was judged; `unjudged`: those of which too little is on record.
    """

    schedules: int
    slots: int
    jobs: int
    faults: tuple[LedgerFault, ...]
    fault_count: int
    reasons: int = 0
    unjudged: int = 0

    @property
    def is_clean(self) -> bool:
        return self.fault_count == 0

    def of(self, kind: Kind) -> list[LedgerFault]:
        """Return the faults of one kind."""
        return [fault for fault in self.faults if fault.kind == kind]

    @property
    def unjudged_text(self) -> str:
        """Return what is said of the reasons that could not be judged; nothing where all were."""
        if not self.unjudged:
            return ""
        slots = "1 slot" if self.unjudged == 1 else f"{self.unjudged:,} slots"
        return f"; the reasons of {slots} are not judged, too little is on record"

    def __str__(self) -> str:
        head = f"{self.schedules} schedules, {self.slots} slots, {self.jobs} jobs: "
        if self.is_clean:
            return head + "every slot has exactly one entry" + self.unjudged_text
        lines = [f"{f.kind} {f.schedule_id} ({f.uid}) {f.slot_at}: {f.sentence}" for f in self.faults]
        return "\n".join([f"{head}{self.fault_count} faults", *lines])


def check_ledger(record: History, now: int, *, tolerance: int = MINUTE) -> LedgerReport:
    """Prove that every slot of the history is in the ledger exactly once, and that counts and reasons are true.

    `tolerance`: how long a transaction that decides may have waited for its turn.
    """
    spans = system_spans(record.system)
    around = background_of(
        record.circumstances,
        record.system,
        spans,
        retained_from=record.retained_from,
        tolerance=tolerance,
    )
    counts, budgets = JobCounts(), BudgetCounts(now)
    faults: list[LedgerFault] = []
    schedules = fault_count = 0
    for history in record.histories:
        schedules += 1
        for fault in check_history(history, record, spans, counts, now, budgets=budgets, around=around):
            if fault.slot_at is not None and fault.slot_at < record.retained_from:
                continue  # retention may have deleted its entry
            fault_count += 1
            if len(faults) < FAULTS_KEPT:
                faults.append(fault)
    shared = [*_check_shared(record, counts, budgets), *around.faults()]
    fault_count += len(shared)
    faults += shared
    return LedgerReport(
        schedules,
        slots=counts.slots,
        jobs=counts.jobs,
        faults=tuple(faults),
        fault_count=fault_count,
        reasons=around.judged,
        unjudged=around.unjudged,
    )


def _check_shared(record: History, counts: JobCounts, budgets: BudgetCounts) -> Iterator[LedgerFault]:
    if record.limits is not None:
        yield from counts.check_limits(record.limits)
    if record.breakers is not None:
        yield from check_breakers(record.breakers, counts.probes, is_whole=not record.retained_from)
    if record.spendings is not None:
        is_steady = reach_of(record.system) == 0
        yield from budgets.check(
            record.spendings,
            record.limits or (),
            known_from=record.retained_from,
            ruled_from=record.ruled_from,
            is_steady=is_steady,
        )


def check_history(
    history: ScheduleHistory,
    record: History,
    spans: list[SystemSpan],
    counts: JobCounts,
    now: int,
    *,
    budgets: BudgetCounts,
    around: Background,
) -> Iterator[LedgerFault]:
    """Yield every fault in the record of one schedule."""
    counts.begin()
    budgets.begin(history)
    entries, outcomes = Entries(known_from=record.retained_from), Outcomes()
    occupied = Occupied()
    is_steady, is_whole = reach_of(record.system) == 0, not record.retained_from
    for job in history.jobs:
        counts.add(job)
        budgets.add(job)
        outcomes.add(job)
        occupied.add(job)
        around.fired.add(budgets.keys_of(job), job)
        entries.add_job(job)
        yield from check_job(history, job, is_steady=is_steady)
    entries_of(history, entries)
    yield from entries.faults(history)
    periods, status = periods_of(history, record.system, now)
    yield from _check_status(history, status)
    decided_until = None
    for period in periods:
        check = check_chain if period.plan.definition.is_chain else check_grid
        decided_until = yield from check(history, period, entries, spans, decided_until, counts=counts)
    yield from entries.left(history, since=_known_from(history))
    yield from check_counters(history, counts, is_whole=is_whole)
    yield from check_reasons(history, occupied, around, now)
    if is_whole:
        yield from check_outcomes(history, outcomes, is_steady=is_steady, ruled_from=record.ruled_from)


def _check_status(history: ScheduleHistory, status: Status | None) -> Iterator[LedgerFault]:
    state = history.state
    if state is None:
        if status is not None:
            yield fault_of(history, "state", None, "the row is gone, and no deletion recorded")
        return
    if status is None:
        sentence = "the row is there although its deletion, or no creation, is recorded"
        yield fault_of(history, "state", None, sentence)
    elif state.status != status:
        yield fault_of(history, "state", None, f"the row says {state.status}, the events say {status}")
    if state.status != "active" and (state.next_slot_at, state.held_slot_at) != (None, None):
        sentence = f"it is {state.status} and still has a slot to come or one held"
        yield fault_of(history, "state", state.next_slot_at or state.held_slot_at, sentence)


def _known_from(history: ScheduleHistory) -> int:
    """Return from when on the record is complete: retention deletes its beginning."""
    if not history.events or history.events[0].event.type == "schedule.created":
        return 0
    return history.events[0].event.at + 1
