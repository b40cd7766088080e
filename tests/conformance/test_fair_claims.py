"""Fair claims (O4): free workers are shared out by owner, then by group, on every database and for several nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everwhen.model.claim import ClaimedJob
from everwhen.model.share import Share, WorkersInUse
from everwhen.store.records import ReadyQuery
from tests.conformance.tenant import Tenant, names, submission
from tests.submissions import create_schedules

MOST = 60_000_000


def claim(
    runtime: Tenant, free: int, running: Sequence[ClaimedJob] = (), most_per_owner: int | None = None
) -> list[ClaimedJob]:
    """Claim as a node that runs those jobs."""
    in_use = WorkersInUse(Counter(share_of(one) for one in running), most_per_owner)
    return runtime.runtime.slots.claim_jobs(runtime.now, node=runtime.node, limit=free, in_use=in_use)


def share_of(claimed: ClaimedJob) -> Share:
    return Share(claimed.definition.owner, claimed.definition.group)


def owners(claimed: Sequence[ClaimedJob]) -> Counter[str | None]:
    return Counter(one.definition.owner for one in claimed)


def add_jobs(runtime: Tenant, name: str, count: int, owner: str | None, group: str | None = None) -> None:
    """Add schedules, each with one job that is ready."""
    fields = {"every": "24h", **({} if owner is None else {"owner": owner})}
    runtime.add_many([f"{name}-{number}" for number in range(count)], group=group, **fields)
    runtime.step()


def test_an_owner_with_many_ready_jobs_does_not_hide_those_of_others(runtime: Tenant) -> None:
    add_jobs(runtime, "ann", 300, "ann")
    add_jobs(runtime, "bob", 1, "bob")
    add_jobs(runtime, "plain", 2, None)
    assert owners(claim(runtime, 6)) == {"ann": 3, "bob": 1, None: 2}


def test_a_late_comer_gets_the_next_free_worker(runtime: Tenant) -> None:
    add_jobs(runtime, "ann", 20, "ann")
    running = claim(runtime, 6)
    add_jobs(runtime, "bob", 5, "bob")
    for _ in range(3):  # one worker after the other becomes free
        running += claim(runtime, 1, running)
    assert owners(running) == {"ann": 6, "bob": 3}


def test_an_owner_gets_its_equal_part_of_the_free_workers_also_when_it_has_more_than_others(
    runtime: Tenant,
) -> None:
    add_jobs(runtime, "ann", 20, "ann")
    running = claim(runtime, 6)
    add_jobs(runtime, "bob", 20, "bob")
    assert owners(claim(runtime, 4, running)) == {"ann": 2, "bob": 2}


def test_an_owner_gets_its_equal_part_beside_one_with_more_groups(runtime: Tenant) -> None:
    add_jobs(runtime, "plain", 3, None)
    for group, count in ((None, 1), ("g", 1), ("h", 3)):
        add_jobs(runtime, f"ann-{group}", count, "ann", group)
    assert owners(claim(runtime, 6)) == {None: 3, "ann": 3}


def test_an_owner_whose_jobs_are_in_one_of_its_groups_gets_its_equal_part(runtime: Tenant) -> None:
    add_jobs(runtime, "plain", 60, None)
    for group, count in ((None, 1), ("g", 1), ("h", 60)):
        add_jobs(runtime, f"ann-{group}", count, "ann", group)
    assert owners(claim(runtime, 40)) == {None: 20, "ann": 20}


def test_the_groups_of_an_owner_take_turns(runtime: Tenant) -> None:
    add_jobs(runtime, "a", 50, "ann", "first")
    add_jobs(runtime, "b", 1, "ann", "second")
    add_jobs(runtime, "c", 50, "bob")
    claimed = claim(runtime, 4)
    assert Counter(map(share_of, claimed)) == {
        Share("ann", "first"): 1,
        Share("ann", "second"): 1,
        Share("bob", None): 2,
    }


def test_an_owner_has_no_more_workers_than_the_bound_and_waits_for_one_of_its_own(runtime: Tenant) -> None:
    add_jobs(runtime, "ann", 8, "ann")
    running = claim(runtime, 6, most_per_owner=5)
    assert len(running) == 5
    assert claim(runtime, 1, running, most_per_owner=5) == []
    in_use = WorkersInUse(Counter(map(share_of, running)), 5)
    assert runtime.runtime.slots.next_ready_at(in_use=in_use) is None
    add_jobs(runtime, "bob", 1, "bob")
    assert runtime.runtime.slots.next_ready_at(in_use=in_use) is not None
    assert owners(claim(runtime, 1, running, most_per_owner=5)) == {"bob": 1}
    assert owners(claim(runtime, 1, running[1:], most_per_owner=5)) == {"ann": 1}


def test_jobs_without_an_owner_may_have_all_workers(runtime: Tenant) -> None:
    add_jobs(runtime, "plain", 8, None)
    assert len(claim(runtime, 6, most_per_owner=5)) == 6


def test_jobs_of_one_owner_begin_in_the_order_in_which_they_became_ready(runtime: Tenant) -> None:
    add_jobs(runtime, "ann", 3, "ann")
    add_jobs(runtime, "bob", 60, "bob")
    add_jobs(runtime, "ann-later", 3, "ann")
    claimed = [name for name in names(claim(runtime, 8)) if name.startswith("ann")]
    assert claimed == ["ann-0", "ann-1", "ann-2", "ann-later-0"]


def test_more_shares_than_one_claim_compares_all_have_their_turn(
    runtime: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everwhen.store.ready.MOST_SHARES", 4)
    for number in range(11):
        add_jobs(runtime, f"s{number}", 4, f"owner-{number:02}")
    running: list[ClaimedJob] = []
    while len(running) < 22:
        running += claim(runtime, 1, running)
    assert len(owners(running)) == 11
    assert max(owners(running).values()) <= 3


# -- the property --


class Scene(NamedTuple):
    """Ready jobs by share, limits of groups, and what nodes with so many free workers claim one after another."""

    ready: dict[Share, int]
    capacity: dict[str, int]
    claims: list[tuple[int, int]]  # the node, and how many of its workers become free
    most_per_owner: int | None


SHARES = st.builds(
    Share, st.sampled_from([None, "ann", "bob", "cid", "dee"]), st.sampled_from([None, "g", "h"])
)
SCENES = st.builds(
    Scene,
    st.dictionaries(SHARES, st.sampled_from([1, 2, 3, 7, 40]), min_size=1, max_size=7),
    st.dictionaries(st.sampled_from(["g", "h"]), st.integers(1, 6)),
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9)), min_size=1, max_size=5),
    st.none() | st.integers(1, 8),
)


def fields_of(share: Share, scene: Scene) -> dict[str, Any]:
    owner = {} if share.owner is None else {"owner": share.owner}
    limit = scene.capacity.get(share.group or "")
    return owner if limit is None else {**owner, "max_concurrent": limit}


@pytest.fixture
def nodes(runtime: Tenant) -> list[Tenant]:
    return [runtime, runtime.neighbour("second")]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scene=SCENES)
def test_each_owner_begins_its_part_of_the_free_workers(nodes: list[Tenant], scene: Scene) -> None:
    node = nodes[0]
    node.wait("1m")
    node.beat()
    new = [
        submission(
            f"{share.owner}.{share.group}.{node.now}.{number}",
            group=share.group and f"{share.group}{node.now}",
            every="3000d",
            if_running="queue",  # else a slot beyond the limit of its group is held
            **fields_of(share, scene),
        )
        for share, count in scene.ready.items()
        for number in range(count)
    ]
    create_schedules(node.runtime, new)
    node.step()
    waiting = Counter({Share(s.owner, s.group and f"{s.group}{node.now}"): n for s, n in scene.ready.items()})
    limits = {f"{group}{node.now}": limit for group, limit in scene.capacity.items()}
    running: list[list[ClaimedJob]] = [[], []]
    everything: list[ClaimedJob] = []
    try:
        for number, free in scene.claims:
            claimed = claim(nodes[number], free, running[number], scene.most_per_owner)
            everything += claimed
            check_parts(claimed, free, waiting, limits, running, number, scene.most_per_owner)
            running[number] += claimed
            waiting -= Counter(map(share_of, claimed))
    finally:
        node.settle(*everything)
        while node.run():  # the next example begins with its own jobs alone
            pass


def check_parts(
    claimed: list[ClaimedJob],
    free: int,
    waiting: Counter[Share],
    limits: dict[str, int],
    running: list[list[ClaimedJob]],
    number: int,
    most_per_owner: int | None,
) -> None:
    began, held = Counter(map(share_of, claimed)), Counter(map(share_of, running[number]))
    everywhere = Counter(share.group for one in running for share in map(share_of, one))
    places = {group: limit - everywhere[group] for group, limit in limits.items()}
    left = {
        group: places[group] - sum(n for share, n in began.items() if share.group == group)
        for group in places
    }
    assert all(count >= 0 for count in left.values())
    assert not began - waiting

    def remaining(owner: str | None, begun: int = 0) -> int:
        mine = sum(n for share, n in held.items() if share.owner == owner) + begun
        return MOST if owner is None or most_per_owner is None else most_per_owner - mine

    def eligible(owner: str | None) -> int:
        jobs = sum(
            min(n, max(places.get(share.group or "", MOST), 0))
            for share, n in waiting.items()
            if share.owner == owner
        )
        return max(min(jobs, remaining(owner)), 0)

    present = {share.owner for share in waiting}
    part = free // max(len([owner for owner in present if eligible(owner)]), 1)
    for owner in present:
        own = {share: n for share, n in began.items() if share.owner == owner}
        count = sum(own.values())
        assert remaining(owner, count) >= 0
        blocked = all(
            not n - began[share] or left.get(share.group or "", 1) == 0
            for share, n in waiting.items()
            if share.owner == owner
        )
        assert count >= min(eligible(owner), part) or blocked, (owner, count, part)
        has_more = not blocked and remaining(owner, count) > 0
        assert not has_more or len(claimed) == free, "a worker stays free while a job could begin"
        for share, n in waiting.items():  # of the groups of an owner, none is behind one that began a job
            if share.owner == owner and n > began[share] and left.get(share.group or "", 1):
                for other in own:
                    assert held[share] + began[share] >= held[other] + began[other] - 1


# -- a hand-over to a queue --


def test_a_hand_over_serves_owners_by_turns(runtime: Tenant) -> None:
    add_jobs(runtime, "ann", 100, "ann")
    add_jobs(runtime, "bob", 2, "bob")
    sent = runtime.runtime.outbox.hand_over(runtime.now, limit=6, until=runtime.now + 60_000_000)
    found = [runtime.job(one.job_id).schedule_id for one in sent]
    assert [name.split("-")[0] for name in found] == ["ann", "bob", "ann", "bob", "ann", "ann"]


# -- what it costs --


def test_a_look_at_the_shares_finds_each_with_one_ready_job(runtime: Tenant) -> None:
    add_jobs(runtime, "ann", 3, "ann")
    add_jobs(runtime, "plain", 2, None)
    with runtime.runtime.slots._store.read() as tx:
        found = tx.ready_shares(ReadyQuery(runtime.now, 10), "")
    assert [(share, at is not None) for share, at in found] == [("", True), ('["ann", null]', True)]
