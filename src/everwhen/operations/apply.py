"""Bringing the store to what a configuration declares: new schedules are created, changed ones edited, those
that left the file removed. What did not change is not touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from everwhen.errors import ConfigError, SchedulerError
from everwhen.model.schedule import Definition, Schedule
from everwhen.model.words import words_of
from everwhen.operations.schedules import (
    Submission,
    create_schedules,
    define,
    delete_schedule,
    get_schedule,
    pause_schedule,
    quiet_hours_of,
    restore_schedule,
    resume_schedule,
    update_schedule,
)
from everwhen.ports.house import House
from everwhen.timetable.trigger import Once


@dataclass(frozen=True, slots=True)
class Applied:
    """What a reconciliation did, by schedule id."""

    created: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


def apply_submissions(house: House, submissions: Sequence[Submission]) -> Applied:
    """Make the schedules of source `config` those that are declared; refused whole when one cannot be."""
    refuse_faults(house, submissions)
    stored = {schedule.state.schedule_id: schedule for schedule in house.catalogue.of_source("config")}
    declared = {submission.schedule_id for submission in submissions}
    new = [s for s in submissions if s.schedule_id not in stored]
    changed = [s for s in submissions if s.schedule_id in stored and differs(house, s, stored[s.schedule_id])]
    removed = [schedule_id for schedule_id in stored if schedule_id not in declared]
    if new:
        create_schedules(house, new, actor="config")
    for submission in changed:
        update_schedule(house, submission, actor="config")
    for schedule_id in removed:
        delete_schedule(house, schedule_id, by="config")
    for submission in submissions:
        if submission.schedule_id in stored:
            _switch(house, submission)
    return Applied(tuple(s.schedule_id for s in new), tuple(s.schedule_id for s in changed), tuple(removed))


def refuse_faults(house: House, submissions: Sequence[Submission]) -> None:
    """Every declaration is tried before anything is written; all that is wrong is told at once."""
    problems: list[str] = []
    for submission in submissions:
        try:
            quiet_hours_of(house, define(house, submission, house.clock.now()))
        except SchedulerError as error:
            problems.append(f"{submission.schedule_id}: {error}")
    if problems:
        raise ConfigError("\n".join(problems))


def _switch(house: House, submission: Submission) -> None:
    """`enabled` in the file pauses and resumes, but never what a person paused (X8); a valid definition heals."""
    state = get_schedule(house, submission.schedule_id).state
    if state.status == "invalid":
        state = restore_schedule(house, submission.schedule_id)
    if not submission.is_enabled and state.status == "active":
        pause_schedule(house, submission.schedule_id, by="config")
    elif submission.is_enabled and state.status == "paused" and state.paused_by == "config":
        resume_schedule(house, submission.schedule_id, by="config")


def differs(house: House, submission: Submission, stored: Schedule) -> bool:
    declared = define(house, submission, house.clock.now())
    return words_of(_settled(declared, stored.definition)) != words_of(stored.definition)


def _settled(declared: Definition, stored: Definition) -> Definition:
    """An `after` was fixed when it was created; the same words mean the same instant."""
    new, old = declared.trigger, stored.trigger
    if isinstance(new, Once) and isinstance(old, Once) and (new.kind, new.text) == (old.kind, old.text):
        return replace(declared, trigger=old)
    return declared
