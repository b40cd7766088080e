"""The general door: `schedules`, whose `run` is any target."""

from __future__ import annotations

from everwhen.config.doors.admission import NOTHING, Admission
from everwhen.config.kinds import Node
from everwhen.config.run_words import target_of


def read_schedules(node: Node, admission: Admission) -> None:
    for item in node.items():
        read_schedule(item, admission)


def read_schedule(item: Node, admission: Admission) -> None:
    """One general schedule whose keys were checked."""
    words = item.words()
    schedule_id, run = words.pop("id", None), words.pop("run", None)
    if schedule_id is not None:
        admission.admit(item, schedule_id, words, target_of(run) if run else NOTHING)
