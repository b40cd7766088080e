"""The counts of successes and failures and the last_* of a row, recomputed from the ended jobs of its schedule.

Jobs that end at one instant may have settled in any order, so numbers that depend on the order are only known to lie
between two bounds. Several nodes settle in parallel, each with the instant at which its transaction began, so a later
end may be written first. With several nodes, the last_* are therefore only checked to within a minute, and numbers
that depend on the order are not checked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, NamedTuple

from everwhen.model.history import Revision, ScheduleHistory
from everwhen.model.instants import MINUTE
from everwhen.model.job import FAILURES, OWN_ORIGINS, Job
from everwhen.model.outcome import message_of, summary_of, with_type
from everwhen.model.policy import OnExhausted
from everwhen.model.schedule import State
from everwhen.verify.entries import LedgerFault, count_faults, fault_of


class NumberRange(NamedTuple):
    """A number known to lie from `least` to `most`."""

    least: int = 0
    most: int = 0

    def holds(self, number: int) -> bool:
        return self.least <= number <= self.most

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


EndKind = Literal["succeeded", "failed", "cancelled", "refused"]
"""`refused`: a retry was cancelled because a budget refused it, and its slot ended as failed."""


class End(NamedTuple):
    """How and when an own job ended, and which attempt of which firing it was."""

    at: int
    kind: EndKind
    number: int
    retry: int


RuleAt = Callable[[int], OnExhausted | None]
"""The `on_exhausted` in force at an instant; None where a revision took effect then: it may be the old or the new."""


@dataclass(slots=True)
class Latest:
    """The latest instant at which something was recorded, and every text that was recorded then."""

    at: int | None = None
    texts: set[str] = field(default_factory=set)

    def add(self, at: int, text: str) -> None:
        if self.at is None or at > self.at:
            self.at, self.texts = at, set()
        if at == self.at:
            self.texts.add(text)


@dataclass(slots=True)
class Outcomes:
    """The own jobs of one history, as far as their starts and ends determine the row."""

    ends: list[End] = field(default_factory=list)
    # The instant, number and retry of each end that may be the last of its slot.
    last_ends: list[tuple[int, int, int]] = field(default_factory=list)
    repeated: set[tuple[int, int]] = field(default_factory=set)  # number and retry that a further job follows
    last_fired_at: int | None = None
    last_run_at: int | None = None
    success: Latest = field(default_factory=Latest)  # ids
    failure: Latest = field(default_factory=Latest)  # errors
    nodes: set[str] = field(default_factory=set)  # that ran them

    def add(self, job: Job) -> None:
        if job.origin not in OWN_ORIGINS:
            return
        if job.retry:
            self.repeated.add((job.number, job.retry - 1))
        else:
            self.last_fired_at = _later(self.last_fired_at, job.created_at)
        if job.started_at is not None:
            self.last_run_at = _later(self.last_run_at, job.started_at)
        if job.node is not None:
            self.nodes.add(job.node)
        if job.ended_at is None:
            return
        if job.status == "cancelled":
            is_refused = job.reason == "budget"  # its slot ended as failed
            if job.node is not None or is_refused:  # it ran
                self.last_ends.append((job.ended_at, job.number, job.retry))
            kind_of_end: EndKind = "refused" if is_refused else "cancelled"
            self.ends.append(End(job.ended_at, kind_of_end, job.number, job.retry))
            return
        self.last_ends.append((job.ended_at, job.number, job.retry))
        is_success = job.status not in FAILURES
        kind: Literal["succeeded", "failed"] = "succeeded" if is_success else "failed"
        self.ends.append(End(job.ended_at, kind, job.number, job.retry))
        if is_success:
            self.success.add(job.ended_at, job.job_id)
        else:
            self.failure.add(job.ended_at, summary_of(job.error or job.status, job.error_type))

    def last_completed_at(self) -> int | None:
        """Return the latest end that is the last attempt of its slot."""
        found = (
            at for at, *which in sorted(self.last_ends, reverse=True) if tuple(which) not in self.repeated
        )
        return next(found, None)

    def count(self, kind: str) -> int:
        return sum(end.kind == kind for end in self.ends)

    def in_a_row(self, resets: Sequence[int], rule_at: RuleAt) -> tuple[NumberRange, NumberRange]:
        """Return bounds of current_repeat (successes) and current_retry (failures since one) since the last reset."""
        repeat = retry = NumberRange()
        since = max(resets, default=None)
        for at, ends in self._by_instant(since):
            successes = sum(end.kind == "succeeded" for end in ends)
            is_unsure = at == since  # it ended before the reset or after it
            repeat = NumberRange(repeat.least + (0 if is_unsure else successes), repeat.most + successes)
            retry = self._retries_after(retry, ends, None if is_unsure else rule_at(at))
        return repeat, retry

    def failed_slots(self) -> NumberRange:
        """Return the number of slots in a row that failed: the failures since the last success that no job follows."""
        slots = NumberRange()
        for _, ends in self._by_instant(None):
            failed = sum(end.kind in ("failed", "refused") and self._is_last(end) for end in ends)
            if any(end.kind == "succeeded" for end in ends):
                slots = NumberRange(0, failed)
            else:
                slots = NumberRange(slots.least + failed, slots.most + failed)
        return slots

    def _by_instant(self, since: int | None) -> Iterator[tuple[int, list[End]]]:
        ends = sorted(end for end in self.ends if since is None or end.at >= since)
        for at, group in groupby(ends, key=lambda end: end.at):
            yield at, list(group)

    def _retries_after(
        self, retry: NumberRange, ends: Sequence[End], rule: OnExhausted | None
    ) -> NumberRange:
        """Return current_retry after these ends: `continue` discards the failures of a slot that is given up."""
        failures = sum(end.kind == "failed" for end in ends)
        if any(end.kind == "succeeded" for end in ends):
            return NumberRange(0, failures)
        most = retry.most + failures
        if rule is None:
            return NumberRange(0, most)
        if rule == "stop" or not any(self._gives_up(end) for end in ends):
            return NumberRange(retry.least + failures, most)
        return NumberRange() if len(ends) == 1 else NumberRange(0, most)

    def _gives_up(self, end: End) -> bool:
        return end.retry > 0 if end.kind in ("cancelled", "refused") else self._is_last(end)

    def _is_last(self, end: End) -> bool:
        return (end.number, end.retry) not in self.repeated

    def is_ruled(self, ruled_from: int) -> bool:
        """Return whether the row's counts of ends in a row were made by the rules of this release alone."""
        if any(end.kind == "succeeded" and end.at >= ruled_from for end in self.ends):
            return True
        return all(end.at >= ruled_from for end in self.ends)


def check_outcomes(
    history: ScheduleHistory, outcomes: Outcomes, *, is_steady: bool, ruled_from: int = 0
) -> Iterator[LedgerFault]:
    """Check the row against the recorded ends, which must be complete. `is_steady`: they are in order.

    Before `ruled_from`, the previous release may have counted by its own rules.
    """
    state = history.state
    if state is None:
        return
    yield from count_faults(history, "run_count", state.run_count, outcomes.count("succeeded"))
    yield from count_faults(history, "error_count", state.error_count, outcomes.count("failed"))
    yield from _check_deaths(history, ruled_from)
    if not is_steady:
        return
    is_in_order = len(outcomes.nodes) <= 1
    yield from _check_last(history, state, outcomes, 0 if is_in_order else MINUTE)
    if is_in_order:
        yield from _check_in_a_row(history, state, outcomes, is_ruled=outcomes.is_ruled(ruled_from))
        yield from _check_last_error(history, state, outcomes)


def _check_in_a_row(
    history: ScheduleHistory, state: State, outcomes: Outcomes, *, is_ruled: bool
) -> Iterator[LedgerFault]:
    resets = [r.event.at for r in history.events if r.event.type == "schedule.revived"]
    repeat, retry = outcomes.in_a_row(resets, rule_of(history.revisions))
    counts = [("current_repeat", state.current_repeat, repeat)]
    if is_ruled:
        counts.append(("current_retry", state.current_retry, retry))
        counts.append(("failed_slots", state.failed_slots, outcomes.failed_slots()))
    for word, on_row, counted in counts:
        if not counted.holds(on_row):
            yield from count_faults(history, word, on_row, counted)


def _check_deaths(history: ScheduleHistory, ruled_from: int) -> Iterator[LedgerFault]:
    """Check that a schedule died only under `on_exhausted: stop`."""
    rule_at = rule_of(history.revisions)
    for recorded in history.events:
        event = recorded.event
        if event.type == "schedule.died" and event.at >= ruled_from and rule_at(event.at) == "continue":
            yield fault_of(history, "state", None, "it died although on_exhausted says continue")


def rule_of(revisions: Sequence[Revision]) -> RuleAt:
    """Return `on_exhausted` by instant, from the revisions; without `max_retries` every slot is given up at once."""
    since = [revision.in_force_at for revision in revisions]

    def rule_at(at: int) -> OnExhausted | None:
        position = bisect_right(since, at) - 1
        if position < 0 or (position > 0 and since[position] == at):
            return None
        return "stop" if revisions[position].plan.definition.stops_when_exhausted else "continue"

    return rule_at


def _check_last(
    history: ScheduleHistory, state: State, outcomes: Outcomes, slack: int
) -> Iterator[LedgerFault]:
    for word, on_row, counted in (
        ("last_fired_at", state.last_fired_at, outcomes.last_fired_at),
        ("last_run_at", state.last_run_at, outcomes.last_run_at),
        ("last_completed_at", state.last_completed_at, outcomes.last_completed_at()),
        ("last_success_at", state.last_success_at, outcomes.success.at),
    ):
        is_near = on_row is not None and counted is not None and 0 <= counted - on_row <= slack
        if not is_near:
            yield from count_faults(history, word, on_row, counted)


def _check_last_error(history: ScheduleHistory, state: State, outcomes: Outcomes) -> Iterator[LedgerFault]:
    success = state.last_success_job_id
    if not _is_one_of(success, outcomes.success.texts):
        text = f"last_success_job_id: {success} is not the last success"
        yield fault_of(history, "counter", None, text)
    failure = None if state.last_error is None else with_type(state.last_error, state.last_error_type)
    # Release 0.1 kept the traceback as well.
    is_old = failure is not None and _is_one_of(message_of(failure), outcomes.failure.texts)
    if not is_old and not _is_one_of(failure, outcomes.failure.texts):
        text = f"last_error: “{failure}” is not what the last failure said"
        yield fault_of(history, "counter", None, text)


def _is_one_of(word: str | None, known: Collection[str]) -> bool:
    return word in known if known else word is None


def _later(known: int | None, instant: int) -> int:
    return instant if known is None or instant > known else known
