"""What nodes and people do, one line each: how the database is prepared, and the action itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

from everwhen.engine.ticker import end_pauses
from everwhen.model.claim import ClaimedJob
from everwhen.model.cost import Cost
from everwhen.model.declare import Declarations, Declared, declare
from everwhen.model.instants import SECOND, to_datetime
from everwhen.model.message import message_target
from everwhen.model.outcome import Outcome, OutputPiece, OutputStream
from everwhen.model.retention import Retention
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.model.serialize import fields_of
from everwhen.operations import jobs as job_operations
from everwhen.operations import quiet_hours as quiet_operations
from everwhen.operations import schedules as operations
from everwhen.operations.apply import apply
from everwhen.operations.breakers import reset_breaker
from everwhen.operations.jobs import fire_schedule
from everwhen.operations.maintenance import prune
from everwhen.operations.requests import execute_requests
from everwhen.operations.tokens import create_token, list_tokens, revoke_token
from everwhen.store.dialect import Insert
from everwhen.store.lanes import Lane
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window
from tests.boundaries.process import Process
from tests.conformance.tenant import FAILED, LEASE, TRUE, Tenant, end_of, submission
from tests.submissions import create_schedule

Prepare = Callable[[Process], Any]
Act = Callable[[Process, Any], object]
Prove = Callable[[Process], None]


class Flow(NamedTuple):
    """`prepare` returns what `act` needs to know, as plain values that outlive the process.

    `prove` is for flows of watchers: it checks what has arrived at their receivers when everything is over.
    """

    name: str
    prepare: Prepare
    act: Act
    prove: Prove | None = None


HELLO = message_target({"text": "hello"})
TOKEN = "a token of 256 bits"
INVALID = Outcome("failed", error="the command is gone", is_final=True, invalidates=True)
AWAITED = Outcome("succeeded", awaits=sha256(TOKEN.encode()).hexdigest())
UID = "0123456789ab"
AGENT: dict[str, Any] = {"group": "g", "max_concurrent": 1}
POLL: dict[str, Any] = {"group": "p", "command": "poll", "max_outstanding": 1}
MONEY: dict[str, Any] = {
    "owner": "team",
    "budgets": {"team": {"cost_per_day": "2 USD", "cost_per_run": "1 USD", "fires_per_hour": 3}},
}
SPENT = Outcome("succeeded", cost=Cost(1_800_000, "USD"))
BREAKER: dict[str, Any] = {"circuit_breaker": {"threshold": 1, "reset_after": "1m"}}


# -- prepared databases --


def nothing(runtime: Process) -> None:
    return None


def added(**fields: Any) -> Prepare:
    """Add one schedule, `a`, whose first slot is due."""
    return lambda runtime: runtime.add("a", **{"every": "1m", **fields})


def spent(runtime: Process) -> None:
    """Add a schedule whose first run has spent the budget."""
    found = claimed(**MONEY)(runtime)
    runtime.settle(*found, outcome=SPENT)


def refused_retry(runtime: Process) -> None:
    """Add a schedule whose run has failed and spent the budget; its retry is due before its next slot."""
    found = claimed(**{**MONEY, "every": "1h", "max_retries": 1, "retry_delay": "1m"})(runtime)
    runtime.settle(*found, outcome=SPENT._replace(status="failed"))


def fired(**fields: Any) -> Prepare:
    """Add a schedule whose first job is queued."""

    def prepare(runtime: Process) -> str:
        runtime.add("a", **{"every": "1m", **fields})
        runtime.step()
        return runtime.jobs("a")[0].job_id

    return prepare


def claimed(**fields: Any) -> Prepare:
    """Add a schedule whose first job runs."""

    def prepare(runtime: Process) -> Any:
        fired(**fields)(runtime)
        return runtime.claim()

    return prepare


def overlapping(runtime: Process, **fields: Any) -> Any:
    """Prepare one running and two waiting jobs."""
    found = claimed(if_running="queue", **fields)(runtime)
    runtime.wait_and_step("1m")
    runtime.wait_and_step("1m")
    return found


def held(**fields: Any) -> Prepare:
    """Prepare `a`, which runs, and `b`, which is held by a shared limit."""

    def prepare(runtime: Process) -> Any:
        runtime.add("a", every="1h", **fields)
        runtime.step()
        found = runtime.claim()
        runtime.add("b", every="1h", **fields)
        runtime.step()
        return found

    return prepare


def behind(**fields: Any) -> Prepare:
    """Prepare ten minutes without an evaluation."""

    def prepare(runtime: Process) -> None:
        runtime.add("a", every="1m", **fields)
        runtime.step()
        runtime.run()
        runtime.wait("10m")

    return prepare


def many(runtime: Process) -> None:
    runtime.add_many([f"s{number}" for number in range(5)], every="1m")
    runtime.add_many([f"p.{number}" for number in range(3)], every="1m", **POLL)
    runtime.add_many([f"g.{number}" for number in range(3)], every="1m", **AGENT)


def one_after_another(runtime: Process) -> None:
    """Prepare slots that a minute later are due, each a second after the one before.

    Of slots with one due instant PostgreSQL takes those first that lie first in the file, which is any of them where
    deleted rows have left space.
    """
    kinds = [
        *(("s", {}) for _ in range(4)),
        *(("p.", POLL) for _ in range(3)),
        *(("g.", AGENT) for _ in range(3)),
    ]
    for number, (prefix, fields) in enumerate(kinds):
        start_at = to_datetime(runtime.now + (51 + number) * SECOND).isoformat()
        runtime.add(f"{prefix}{number}", every="1m", start_at=start_at, **fields)


def speaking(runtime: Process) -> None:
    """Prepare messages that are settled when they are fired, and one whose job takes a place first."""
    runtime.add_many([f"s{number}" for number in range(3)], every="1m", target=HELLO)
    runtime.add("g.a", every="1m", target=HELLO, **AGENT)


def waited(duration: str, prepare: Prepare) -> Prepare:
    """Let time pass after the preparation."""

    def and_wait(runtime: Process) -> Any:
        known = prepare(runtime)
        runtime.wait(duration)
        return known

    return and_wait


def paused(runtime: Process) -> None:
    added()(runtime)
    runtime.pause("a")


def system_paused(runtime: Process) -> None:
    many(runtime)
    runtime.pause_system()


def quiet(runtime: Process) -> None:
    runtime.put_quiet_hours("08:00-09:00")
    runtime.add("a", every="1m", quiet_hours="nights")


def many_fired(runtime: Process) -> None:
    many(runtime)
    runtime.step()


def deferred(runtime: Process) -> None:
    """Prepare a slot that is held until the opening of its quiet hours."""
    runtime.put_quiet_hours("08:00-09:00")
    runtime.add("a", every="24h", quiet_hours="nights")
    runtime.step()


def failed(runtime: Process, **fields: Any) -> Any:
    found = claimed(**fields)(runtime)
    runtime.settle(*found, outcome=FAILED)
    return found


def failing(runtime: Process) -> Any:
    """Prepare a schedule whose breaker is open and whose retry waits."""
    found = failed(runtime, max_retries=2, retry_delay="90s", **BREAKER)
    runtime.wait("2m")
    return found


def stopped(runtime: Process) -> None:
    """Prepare a schedule that is done, because it has run as often as it should."""
    found = claimed(total_repeats=1)(runtime)
    runtime.settle(*found)


def handed_over(runtime: Process) -> Any:
    """Prepare a job whose work continues in another system."""
    found = claimed(timeout="10m", **AGENT)(runtime)
    runtime.settle(*found, outcome=AWAITED)
    return found


def of_a_dead_node(**fields: Any) -> Prepare:
    def prepare(runtime: Process) -> None:
        runtime.add("a", **{"every": "1h", **fields})
        runtime.step()
        runtime.runtime.slots.heartbeat(runtime.now, node="dead", version="test", is_scheduler=False)
        runtime.runtime.slots.claim_jobs(runtime.now, node="dead", limit=9)
        runtime.wait("5m")

    return prepare


def delivered(runtime: Process) -> Any:
    """Prepare a job that is on its way to a queue."""
    fired()(runtime)
    return runtime.runtime.outbox.hand_over(runtime.now, limit=9, until=runtime.now + LEASE)


def grown_old(runtime: Process) -> None:
    """Prepare old rows of every kind, for retention to delete."""
    (found,) = claimed(**BREAKER)(runtime)
    runtime.runtime.slots.write_output(runtime.now, [piece_of(found)], [])
    runtime.settle(found, outcome=FAILED)
    runtime.add("gone", every="1m")
    runtime.step()
    runtime.run()
    runtime.delete("gone")
    runtime.wait_and_step("400d")


def configured(runtime: Process) -> None:
    apply(
        runtime.runtime,
        declarations(
            runtime, "one", ["nights"], kept={"every": "1m"}, changed={"every": "1m"}, gone={"every": "1m"}
        ),
    )
    runtime.step()


def with_a_token(runtime: Process) -> str:
    create_token(runtime.runtime, "ci", "admin")
    return list_tokens(runtime.runtime)[0].token_id


# -- actions --


def piece_of(one: ClaimedJob) -> OutputPiece:
    return OutputPiece(OutputStream(one.job.job_id, 1, "stdout"), 0, b"x")


def settling(outcome: Outcome | None = None) -> Act:
    def settle(runtime: Process, found: Any) -> None:
        if outcome is None:
            runtime.settle(*found)
        else:
            runtime.settle(*found, outcome=outcome)

    return settle


def ticking(limit: int = 500) -> Act:
    return lambda runtime, _: [runtime.tick(limit=limit), runtime.tick(limit=limit, behind=True)]


def exchanging(runtime: Process, found: Any) -> None:
    if runtime.runtime.slots.can_exchange:
        runtime.runtime.slots.exchange(
            runtime.now, [end_of(one) for one in found], node=runtime.node, limit=5
        )
    else:
        runtime.settle(*found)
        runtime.claim(5)


def policy(between: str) -> QuietHoursPolicy:
    hours = QuietHours(zone("UTC"), (QuietWindow(parse_window(between)),))
    return QuietHoursPolicy("nights", "nights", hours, "defer")


def declarations(runtime: Tenant, digest: str, policies: list[str], **fields: dict[str, Any]) -> Declarations:
    schedules = [
        Declared(name, keys, TRUE, declare(name, keys, target=TRUE, now=runtime.now), place="everwhen.yaml:1")
        for name, keys in fields.items()
    ]
    return Declarations(tuple(schedules), tuple(policy("22:00-23:00") for _ in policies), digest)


def reloading(runtime: Process, _: Any) -> None:
    changed = {"every": "2m", "quiet_hours": "nights"}
    apply(
        runtime.runtime,
        declarations(runtime, "two", ["nights"], kept={"every": "1m"}, changed=changed, new={"every": "1m"}),
    )


def backfilling(runtime: Process, _: Any) -> None:
    end = runtime.clock.moment
    start = end.replace(minute=end.minute - 10)
    job_operations.backfill(runtime.runtime, "a", start, end)


def reporting(runtime: Process, found: Any) -> None:
    job_operations.report_outcome(runtime.runtime, found[0].job.job_id, TOKEN, status="succeeded")


def requested(action: str, schedule_id: str, body: dict[str, Any]) -> Prepare:
    """Add one schedule, `a`, and a request that a program has committed."""

    def prepare(runtime: Process) -> None:
        runtime.add("a", every="1m", source="python", uid=UID)
        columns = ("request_id", "action", "schedule_id", "body", "created_at")
        rows = [("request", action, schedule_id, json.dumps(body), runtime.now)]
        store = runtime.runtime.catalogue._store
        store.write(Lane.API, lambda tx: tx.insert(Insert("requests", columns), rows))

    return prepare


def carrying_out(runtime: Process, _: Any) -> None:
    execute_requests(runtime.runtime)


NEW = {
    "definition": fields_of(declare("b", {"every": "2m"}, target=TRUE, now=0)),
    "enabled": True,
    "replace": False,
}

FLOWS = (
    Flow("carry out an addition", requested("add", "b", NEW), carrying_out),
    Flow("refuse an addition", requested("add", "a", NEW), carrying_out),
    Flow("carry out a replacement", requested("add", "a", {**NEW, "replace": True}), carrying_out),
    Flow("carry out an update", requested("update", "a", {"set": {"name": "A"}, "unset": []}), carrying_out),
    Flow(
        "carry out a trigger",
        requested("trigger", "a", {"payload": None, "if_running": "queue"}),
        carrying_out,
    ),
    Flow("carry out a removal", requested("remove", "a", {"cancel_running": True}), carrying_out),
    Flow(
        "create",
        nothing,
        lambda h, _: create_schedule(h.runtime, submission("a", every="1m", uid=UID)),
    ),
    Flow("create many", nothing, lambda h, _: h.add_many(["a", "b", "c"], every="1m")),
    Flow(
        "create in quiet hours",
        lambda h: h.put_quiet_hours("08:00-09:00"),
        lambda h, _: h.add("a", every="1m", quiet_hours="nights"),
    ),
    Flow("edit the times", fired(), lambda h, _: h.edit("a", every="2m")),
    Flow("edit the rules", fired(), lambda h, _: h.edit("a", every="1m", max_retries=3)),
    Flow("edit what is held", held(**POLL), lambda h, _: h.edit("b", every="1h", group="p", command="other")),
    Flow(
        "edit what waits for an opening",
        deferred,
        lambda h, _: h.edit("a", every="24h", only_between="10:00-11:00", outside_window="defer"),
    ),
    Flow("pause", overlapping, lambda h, _: h.pause("a")),
    Flow("pause what is held", held(**AGENT), lambda h, _: h.pause("b")),
    Flow("resume", paused, lambda h, _: h.resume("a")),
    Flow("revive", stopped, lambda h, _: operations.revive_schedule(h.runtime, "a")),
    Flow("trigger", fired(), lambda h, _: h.trigger("a")),
    Flow("request", lambda h: h.add("a", type="webhook"), lambda h, _: fire_schedule(h.runtime, "a")),
    Flow("backfill", behind(), backfilling),
    Flow("delete", overlapping, lambda h, _: h.delete("a")),
    Flow("delete and cancel", overlapping, lambda h, _: h.delete("a", cancel_running=True)),
    Flow("cancel a queued job", fired(), lambda h, job_id: h.cancel(job_id)),
    Flow("cancel a running job", claimed(), lambda h, found: h.cancel(found[0].job.job_id)),
    Flow("tick", added(), ticking()),
    Flow("tick many", many, ticking()),
    Flow("tick in portions", waited("1m", one_after_another), ticking(limit=4)),
    Flow("tick messages", speaking, ticking()),
    Flow("tick while it runs", waited("1m", claimed()), ticking()),
    Flow("tick and cancel", waited("1m", claimed(if_running="cancel")), ticking()),
    Flow(
        "tick in quiet hours",
        quiet,
        ticking(),
    ),
    Flow("tick at the opening", waited("1h", deferred), ticking()),
    Flow("tick the last slot", waited("1m", lambda h: h.add("a", after="1m")), ticking()),
    Flow("miss", behind(catch_up="skip"), ticking()),
    Flow("catch up once", behind(catch_up="run_once"), ticking()),
    Flow("catch up all", behind(catch_up="run_all"), ticking()),
    Flow("probe", waited("2m", lambda h: failed(h, **BREAKER)), ticking()),
    Flow("claim", many_fired, lambda h, _: h.claim(6)),
    Flow("claim all", many_fired, lambda h, _: h.claim()),
    Flow("claim a retry that probes", failing, lambda h, _: [h.tick(), h.claim()]),
    Flow("settle a success", claimed(), settling()),
    Flow("settle a failure", claimed(), settling(FAILED)),
    Flow("settle with a retry", claimed(max_retries=3), settling(FAILED)),
    Flow("settle and open the breaker", claimed(**BREAKER), settling(FAILED)),
    Flow("settle the last repeat", lambda h: overlapping(h, total_repeats=1), settling()),
    Flow("settle what is gone", claimed(), settling(INVALID)),
    Flow("settle and release what is held", held(**POLL), settling()),
    Flow("settle and make room", held(**AGENT), settling()),
    Flow("settle a chain", claimed(interval_from="completion"), settling()),
    Flow("settle what goes on elsewhere", claimed(timeout="10m", **AGENT), settling(AWAITED)),
    Flow("exchange", overlapping, exchanging),
    Flow("report", handed_over, reporting),
    Flow(
        "end what is overdue",
        waited("1h", handed_over),
        lambda h, _: h.runtime.slots.end_overdue(h.now),
    ),
    Flow("rescue", of_a_dead_node(), lambda h, _: h.rescue()),
    Flow("lose", of_a_dead_node(on_lost="fail", max_retries=1), lambda h, _: h.rescue()),
    Flow(
        "put strays back",
        claimed(),
        lambda h, _: h.runtime.slots.put_orphans_back(h.now, node=h.node, held=()),
    ),
    Flow(
        "note a lost node",
        of_a_dead_node(),
        lambda h, _: h.runtime.upkeep.note_lost(h.now, node=h.node, lease=LEASE),
    ),
    Flow(
        "heartbeat",
        nothing,
        lambda h, _: h.runtime.slots.heartbeat(h.now, node="new", version="test", is_scheduler=True),
    ),
    Flow("sign off", claimed(), lambda h, _: h.runtime.slots.sign_off_node(h.now, node=h.node)),
    Flow(
        "write output",
        claimed(),
        lambda h, found: h.runtime.slots.write_output(h.now, [piece_of(found[0])], []),
    ),
    Flow(
        "hand over to a queue",
        fired(),
        lambda h, _: h.runtime.outbox.hand_over(h.now, limit=9, until=h.now + LEASE),
    ),
    Flow(
        "take from a queue",
        delivered,
        lambda h, sent: h.runtime.outbox.take(
            h.now, node=h.node, job_id=sent[0].job_id, number=sent[0].number
        ),
    ),
    Flow(
        "put back what a queue lost",
        waited("1m", delivered),
        lambda h, sent: h.runtime.outbox.put_back(h.now, sent),
    ),
    Flow("prune", grown_old, lambda h, _: prune(h.runtime, Retention())),
    Flow(
        "add quiet hours",
        nothing,
        lambda h, _: quiet_operations.create_quiet_hours(h.runtime, policy("08:00-09:00")),
    ),
    Flow(
        "change quiet hours",
        deferred,
        lambda h, _: quiet_operations.change_quiet_hours(
            h.runtime, "nights", lambda _: policy("08:00-08:30")
        ),
    ),
    Flow(
        "delete quiet hours",
        lambda h: h.put_quiet_hours("08:00-09:00"),
        lambda h, _: quiet_operations.delete_own_quiet_hours(h.runtime, "nights"),
    ),
    Flow("pause the system", many, lambda h, _: h.pause_system()),
    Flow(
        "resume the system",
        waited("5m", system_paused),
        lambda h, _: h.resume_system(),
    ),
    Flow("tick and reserve", added(**MONEY), ticking()),
    Flow("tick beyond a budget", waited("1m", spent), ticking()),
    Flow("settle a cost", claimed(**MONEY), settling(SPENT)),
    Flow("settle without a report", claimed(**MONEY), settling()),
    Flow("refuse a retry", waited("10m", refused_retry), lambda h, _: h.claim()),
    Flow("rescue what costs", of_a_dead_node(**MONEY), lambda h, _: h.rescue()),
    Flow("cancel what costs", claimed(**MONEY), lambda h, found: h.cancel(found[0].job.job_id)),
    Flow("trigger what costs", fired(**MONEY), lambda h, _: h.trigger("a")),
    Flow("refill", waited("24h", spent), lambda h, _: end_pauses(h.runtime)),
    Flow("reset a breaker", failing, lambda h, found: reset_breaker(h.runtime, found[0].job.breaker_key)),
    Flow("reload", configured, reloading),
    Flow("create a token", nothing, lambda h, _: create_token(h.runtime, "ci", "admin")),
    Flow("revoke a token", with_a_token, lambda h, token_id: revoke_token(h.runtime, token_id)),
)
