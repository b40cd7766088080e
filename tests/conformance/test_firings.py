"""Jobs in the order of their commits, whose they are, and the slots that are held (L2, L4)."""

from __future__ import annotations

from tests.conformance.tenant import FAILED, MANY, Tenant, at


def fired(house: Tenant, after: int = 0, limit: int = MANY) -> list[tuple[str, str, int]]:
    found = house.house.firings.after(after, limit=limit)
    assert [one.row_id for one in found] == sorted(one.row_id for one in found)
    return [(one.schedule_id, one.origin, one.retry) for one in found]


def test_jobs_follow_in_the_order_in_which_they_were_enqueued(house: Tenant) -> None:
    assert (fired(house), house.house.firings.last()) == ([], 0)
    house.add("a", every="1h", max_retries=3, retry_delay="1m")
    house.step()
    house.run(FAILED)
    house.trigger("a")
    assert fired(house) == [("a", "schedule", 0), ("a", "retry", 1), ("a", "manual", 0)]
    first = house.house.firings.after(0, limit=1)[0]
    assert fired(house, first.row_id, limit=1) == [("a", "retry", 1)]
    last = house.house.firings.last()
    assert fired(house, last) == []
    house.clock.step("-1h")
    house.trigger("a")
    house.clock.step("1h")
    assert fired(house, last) == [("a", "manual", 0)]


def test_a_firing_says_what_its_job_says(house: Tenant) -> None:
    house.add("a", every="1h", owner="anna")
    house.step()
    (job,) = house.jobs("a")
    (one,) = house.house.firings.after(0, limit=MANY)
    assert (one.job_id, one.uid, one.number, one.revision) == (job.job_id, job.uid, job.number, job.revision)
    assert (one.slot_at, one.created_at, one.owner) == (job.slot_at, job.created_at, "anna")
    assert house.house.firings.owners([job.uid, "nobody"]) == {job.uid: "anna"}
    house.claim()
    house.delete("a")
    assert [one.owner for one in house.house.firings.after(0, limit=MANY)] == [None]
    assert house.house.firings.owners([job.uid]) == {}


def test_holds_are_those_of_the_moment(house: Tenant) -> None:
    for name, owner in (("g.a", None), ("g.b", "anna"), ("g.c", "bob")):
        house.add(name, every="24h", group="g", max_concurrent=1, owner=owner)
    house.add("shut", every="1h", only_between="09:00-18:00", outside_window="defer", owner="anna")
    house.step()
    firings = house.house.firings
    holds = {one.schedule_id: one for one in firings.holds(limit=MANY)}
    assert {name: one.reason for name, one in holds.items()} == {
        "g.b": "at_capacity",
        "g.c": "at_capacity",
        "shut": "outside_window",
    }
    assert (holds["g.b"].slot_at, holds["g.b"].since) == (at("08:00:00"), house.now)
    assert {one.schedule_id for one in firings.holds(owner="anna", limit=MANY)} == {"g.b", "shut"}
    assert [one.schedule_id for one in firings.holds(uid=holds["shut"].uid, limit=MANY)] == ["shut"]
    assert len(firings.holds(limit=2)) == 2
    house.run()
    house.step()
    assert {one.schedule_id for one in firings.holds(limit=MANY)} == {"g.c", "shut"}


def test_two_writers_and_a_reader_see_every_job_once(house: Tenant) -> None:
    house.add("a", every="24h", if_running="allow")
    house.step()
    neighbour = house.neighbour()
    seen: list[int] = []
    for _ in range(5):
        for writer in (house, neighbour):
            writer.trigger("a")
            seen += [one.row_id for one in house.house.firings.after(seen[-1] if seen else 0, limit=MANY)]
    assert seen == sorted(job.row_id for job in house.jobs("a"))
    assert len(seen) == 11
