"""A database on which two nodes can do anything at once, and the actions of each: one line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everwhen.model.instants import MINUTE
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.retention import Retention
from everwhen.operations import quiet_hours as quiet_operations
from everwhen.operations.apply import apply
from everwhen.operations.maintenance import prune
from tests.boundaries.flows import AGENT, BREAKER, POLL, Flow, declarations, policy, reloading
from tests.boundaries.process import Process
from tests.conformance.tenant import FAILED, put_policy

Action = Callable[[Process, Any], object]

YOUNG = Retention(jobs=MINUTE, audit=MINUTE, breaker_transitions=MINUTE, messages=MINUTE, output=MINUTE)


def crowd(runtime: Process) -> dict[str, Any]:
    """Create jobs that run, wait and are held, one of a dead node, and due slots; return which node runs which job."""
    runtime.put_quiet_hours("12:00-13:00", "skip", policy_id="days")
    declared = {name: {"every": "1m"} for name in ("kept", "changed", "gone")}
    apply(runtime.runtime, declarations(runtime, "one", ["nights"], **declared))
    runtime.add("lost", every="1h", max_retries=1)
    runtime.step()
    runtime.runtime.slots.heartbeat(runtime.now, node="dead", version="test", is_scheduler=False)
    runtime.runtime.slots.claim_jobs(runtime.now, node="dead", limit=9)
    runtime.add("a", every="1m", if_running="queue")
    runtime.add("last", every="1m", if_running="allow", total_repeats=1)
    runtime.add("breaks", every="1m", if_running="allow", max_retries=2, **BREAKER)
    runtime.add_many(["p.1", "p.2"], every="1m", **POLL)
    runtime.add_many(["g.1", "g.2"], every="1m", **AGENT)
    runtime.step()
    found = runtime.claim()
    runtime.wait_and_step("1m")
    runtime.wait("1m")
    runtime.beat()
    return {one.job.schedule_id: one for one in found}


def settling(schedule_id: str, outcome: Outcome = SUCCEEDED) -> Action:
    return lambda runtime, known: runtime.settle(known[schedule_id], outcome=outcome)


def cancel_the_next(runtime: Process, known: Any) -> None:
    waiting = [job for job in runtime.jobs("a") if job.status == "queued"]
    runtime.cancel((waiting or [known["a"].job])[0].job_id)


def pause_and_resume(runtime: Process, _known: Any) -> None:
    runtime.pause_system()
    runtime.resume_system()


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
    "delete quiet hours": lambda h, _: quiet_operations.delete_own_quiet_hours(h.runtime, "days"),
    "change quiet hours": lambda h, _: put_policy(h.runtime, policy("08:00-08:30")),
    "delete": lambda h, _: h.delete("a"),
    "reload": reloading,
    "rescue": lambda h, _: h.rescue(),
    "prune": lambda h, _: prune(h.runtime, YOUNG),
    "pause the system": lambda h, _: h.pause_system(),
    "pause and resume the system": pause_and_resume,
}

CROWD = Flow("crowd", crowd, lambda runtime, _: None)
