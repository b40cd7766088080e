"""A database on which two nodes can do anything at once, and what each of them may do: one line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everwhen.model.instants import MINUTE
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.retention import Retention
from everwhen.operations import quiet_hours as quiet_operations
from everwhen.operations.apply import apply
from everwhen.operations.retention import prune
from tests.boundaries.flows import AGENT, BREAKER, POLL, Flow, declarations, policy, reloading
from tests.conformance.tenant import FAILED, Tenant, put_policy

Action = Callable[[Tenant, Any], object]

YOUNG = Retention(jobs=MINUTE, audit=MINUTE, breaker_transitions=MINUTE, messages=MINUTE, output=MINUTE)


def crowd(house: Tenant) -> dict[str, Any]:
    """Jobs that run, wait and are held, one of a node that is gone, and slots that are due; who runs what."""
    house.put_quiet_hours("12:00-13:00", "skip", policy_id="days")
    declared = {name: {"every": "1m"} for name in ("kept", "changed", "gone")}
    apply(house.house, declarations(house, "one", ["nights"], **declared))
    house.add("lost", every="1h", max_retries=1)
    house.step()
    house.house.slots.heartbeat(house.now, node="dead", version="test", is_scheduler=False)
    house.house.slots.claim_jobs(house.now, node="dead", limit=9)
    house.add("a", every="1m", if_running="queue")
    house.add("last", every="1m", if_running="allow", total_repeats=1)
    house.add("breaks", every="1m", if_running="allow", max_retries=2, **BREAKER)
    house.add_many(["p.1", "p.2"], every="1m", **POLL)
    house.add_many(["g.1", "g.2"], every="1m", **AGENT)
    house.step()
    found = house.claim()
    house.wait_and_step("1m")
    house.wait("1m")
    house.beat()
    return {one.job.schedule_id: one for one in found}


def settling(schedule_id: str, outcome: Outcome = SUCCEEDED) -> Action:
    return lambda house, known: house.settle(known[schedule_id], outcome=outcome)


def cancel_the_next(house: Tenant, known: Any) -> None:
    waiting = [job for job in house.jobs("a") if job.status == "queued"]
    house.cancel((waiting or [known["a"].job])[0].job_id)


ACTIONS: dict[str, Action] = {
    "tick": lambda h, _: [h.tick(), h.tick(behind=True)],
    "claim": lambda h, _: h.claim(5),
    "settle": settling("a"),
    "settle the last": settling("last"),
    "settle a failure": settling("breaks", FAILED),
    "settle and make room": settling("g.1"),
    "cancel": cancel_the_next,
    "pause": lambda h, _: h.pause("a"),
    "pause the last": lambda h, _: h.pause("last"),
    "edit": lambda h, _: h.edit("a", every="2m", if_running="queue"),
    "edit to quiet hours": lambda h, _: h.edit("a", every="1m", if_running="queue", quiet_hours="days"),
    "create in quiet hours": lambda h, _: h.add("new", every="1m", quiet_hours="days"),
    "delete quiet hours": lambda h, _: quiet_operations.delete_own_quiet_hours(h.house, "days"),
    "change quiet hours": lambda h, _: put_policy(h.house, policy("08:00-08:30")),
    "delete": lambda h, _: h.delete("a"),
    "reload": reloading,
    "rescue": lambda h, _: h.rescue(),
    "prune": lambda h, _: prune(h.house, YOUNG),
    "pause the system": lambda h, _: h.pause_system(),
}

CROWD = Flow("crowd", crowd, lambda house, _: None)
