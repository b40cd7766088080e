"""Jobs in the order of their commits, their owners, and the held slots (L2, L4)."""

from __future__ import annotations

from tests.conformance.tenant import FAILED, MANY, Tenant, at


def fired(runtime: Tenant, after: int = 0, limit: int = MANY) -> list[tuple[str, str, int]]:
    found = runtime.runtime.firings.after(after, limit=limit)
    assert [one.row_id for one in found] == sorted(one.row_id for one in found)
    return [(one.schedule_id, one.origin, one.retry) for one in found]


def test_jobs_follow_in_the_order_in_which_they_were_enqueued(runtime: Tenant) -> None:
    assert (fired(runtime), runtime.runtime.firings.last()) == ([], 0)
    runtime.add("a", every="1h", max_retries=3, retry_delay="1m")
    runtime.step()
    runtime.run(FAILED)
    runtime.trigger("a")
    assert fired(runtime) == [("a", "schedule", 0), ("a", "retry", 1), ("a", "manual", 0)]
    first = runtime.runtime.firings.after(0, limit=1)[0]
    assert fired(runtime, first.row_id, limit=1) == [("a", "retry", 1)]
    last = runtime.runtime.firings.last()
    assert fired(runtime, last) == []
    runtime.clock.step("-1h")
    runtime.trigger("a")
    runtime.clock.step("1h")
    assert fired(runtime, last) == [("a", "manual", 0)]


def test_a_firing_says_what_its_job_says(runtime: Tenant) -> None:
    runtime.add("a", every="1h", owner="anna")
    runtime.step()
    (job,) = runtime.jobs("a")
    (one,) = runtime.runtime.firings.after(0, limit=MANY)
    assert (one.job_id, one.uid, one.number, one.revision) == (job.job_id, job.uid, job.number, job.revision)
    assert (one.slot_at, one.created_at, one.owner) == (job.slot_at, job.created_at, "anna")
    assert runtime.runtime.firings.owners([job.uid, "nobody"]) == {job.uid: "anna"}
    runtime.claim()
    runtime.delete("a")
    assert [one.owner for one in runtime.runtime.firings.after(0, limit=MANY)] == [None]
    assert runtime.runtime.firings.owners([job.uid]) == {}


def test_holds_are_those_of_the_moment(runtime: Tenant) -> None:
    for name, owner in (("g.a", None), ("g.b", "anna"), ("g.c", "bob")):
        runtime.add(name, every="24h", group="g", max_concurrent=1, owner=owner)
    runtime.add("shut", every="1h", only_between="09:00-18:00", outside_window="defer", owner="anna")
    runtime.step()
    firings = runtime.runtime.firings
    holds = {one.schedule_id: one for one in firings.holds(limit=MANY)}
    assert {name: one.reason for name, one in holds.items()} == {
        "g.b": "at_capacity",
        "g.c": "at_capacity",
        "shut": "outside_window",
    }
    assert (holds["g.b"].slot_at, holds["g.b"].since) == (at("08:00:00"), runtime.now)
    assert {one.schedule_id for one in firings.holds(owner="anna", limit=MANY)} == {"g.b", "shut"}
    assert [one.schedule_id for one in firings.holds(uid=holds["shut"].uid, limit=MANY)] == ["shut"]
    assert len(firings.holds(limit=2)) == 2
    runtime.run()
    runtime.step()
    assert {one.schedule_id for one in firings.holds(limit=MANY)} == {"g.c", "shut"}


def test_two_writers_and_a_reader_see_every_job_once(runtime: Tenant) -> None:
    runtime.add("a", every="24h", if_running="allow")
    runtime.step()
    neighbour = runtime.neighbour()
    seen: list[int] = []
    for _ in range(5):
        for writer in (runtime, neighbour):
            writer.trigger("a")
            seen += [one.row_id for one in runtime.runtime.firings.after(seen[-1] if seen else 0, limit=MANY)]
    assert seen == sorted(job.row_id for job in runtime.jobs("a"))
    assert len(seen) == 11
