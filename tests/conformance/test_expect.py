"""Deadlines of `expect` on every store: noted once, moved after a downtime and a pause, met by a person's run."""

from __future__ import annotations

from everwhen.engine.pinger import Pinger
from tests.conformance.tenant import FAILED, LEASE, Tenant

MINUTE = 60_000_000


def silent(runtime: Tenant) -> int:
    return sum(event.type == "schedule.silent" for event in runtime.events("s"))


def test_a_deadline_that_passed_is_noted_once_and_starts_again_with_a_success(runtime: Tenant) -> None:
    slots = runtime.runtime.slots
    assert slots.next_expected_at() is None
    runtime.add("s", every="1h", expect={"each": "slot", "grace": "10m"}, if_running="allow")
    deadline = slots.next_expected_at()
    assert deadline is not None
    runtime.step()
    runtime.run(FAILED)
    runtime.clock.advance("2h")
    assert slots.note_silences(runtime.now) == 1
    assert slots.note_silences(runtime.now) == 0
    assert silent(runtime) == 1
    assert slots.next_expected_at() is None
    runtime.trigger("s")
    runtime.run()
    assert slots.next_expected_at() is not None  # a person's success ends it
    assert runtime.state("s").last_success_at is None
    runtime.wait_and_step("1h")
    runtime.run()
    assert runtime.state("s").last_success_at is not None
    assert slots.note_silences(runtime.now) == 0


def test_a_downtime_moves_a_deadline_once_and_a_pause_of_the_system_starts_it_anew(runtime: Tenant) -> None:
    slots = runtime.runtime.slots
    runtime.add("s", every="1h", first_run="after_interval", expect={"within": "2h"})
    before, since = slots.next_expected_at(), runtime.now
    assert before is not None
    runtime.wait("30m")
    for _ in range(2):  # two nodes start
        slots.move_deadlines(since, runtime.now)
    assert slots.next_expected_at() == before + 30 * MINUTE
    runtime.pause_system()
    assert slots.next_expected_at() is None
    runtime.wait("10h")
    runtime.resume_system()
    assert slots.next_expected_at() == runtime.now + 120 * MINUTE
    runtime.pause("s")
    assert slots.next_expected_at() is None


def test_a_downtime_is_what_the_heartbeats_on_record_leave_open(runtime: Tenant) -> None:
    def downtimes(tenant: Tenant) -> tuple[list[float], bool]:
        found = tenant.runtime.slots.downtimes(tenant.now, node=tenant.node, lease=LEASE)
        return [(until - since) / 1e6 for since, until in found.spans], found.is_settled

    runtime.wait("14s")
    neighbour = runtime.neighbour()
    assert downtimes(neighbour) == ([], False)  # the first node may be alive: its lease lasts
    runtime.beat()
    assert downtimes(neighbour) == downtimes(runtime) == ([], True)
    runtime.wait("29s")
    neighbour.beat()
    assert downtimes(neighbour) == ([], True)
    runtime.wait("31s")
    assert downtimes(neighbour) == downtimes(runtime) == ([31.0], True)  # both were cut off
    neighbour.beat()
    assert downtimes(neighbour) == ([], True)
    neighbour.runtime.slots.sign_off_node(runtime.now, node=neighbour.node)
    runtime.wait("2s")
    third = runtime.neighbour("node-3")
    assert downtimes(third) == ([2.0], True)  # all others are over
    third.runtime.slots.move_deadlines(third.now - 2_000_000, third.now)
    assert downtimes(third) == ([], True)


def test_a_deadline_that_an_earlier_process_left_on_a_row_is_no_silence(runtime: Tenant) -> None:
    slots = runtime.runtime.slots
    for name in ("s", "plain"):
        runtime.add(name, every="1h", expect={"within": "2h"} if name == "s" else None)
    runtime.pause("s")
    for name in ("s", "plain"):
        runtime.move_row(name, expect_at=runtime.now)
    assert slots.note_silences(runtime.now) == 2
    assert silent(runtime) == 0
    assert runtime.state("s").expect_at is runtime.state("plain").expect_at is None


def test_the_start_and_the_end_of_a_run_become_pings(runtime: Tenant) -> None:
    alerts = runtime.runtime.alerts
    pinger = Pinger(runtime.runtime, lambda: runtime.node)
    assert not alerts.has_pings()
    runtime.add("s", every="1h", ping={"url": "https://hc.example/p"})
    assert alerts.has_pings()
    pinger.step()
    runtime.step()
    (job,) = runtime.claim()
    pinger.step()
    runtime.settle(job)
    pinger.step()
    found = alerts.deliveries(rule=None, owner=None, limit=9)[::-1]
    assert [one.content["path"] for one in found] == ["/start", ""]
    assert [one.delivery_id for one in alerts.pending()] == [found[0].delivery_id]  # in order
    assert alerts.confirm(runtime.now, found[0], ())
    assert not alerts.confirm(runtime.now, found[0], ())
    assert [one.delivery_id for one in alerts.pending()] == [found[1].delivery_id]
    pinger.release()
    runtime.edit("s", every="1h")
    assert not alerts.has_pings()
