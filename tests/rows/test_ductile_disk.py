"""Rows D that speak of what outlives a process: on a database on disk, with a file, plugins and real programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from everwhen.engine.service import ServiceOptions
from everwhen.model.plugin import plugin_target
from everwhen.model.schedule import State
from everwhen.operations.schedules import get_schedule
from everwhen.runtime import Runtime
from everwhen.target_registry import open_target_registry
from everwhen.wiring import build_service, open_stack
from tests.api.serving import serving
from tests.rows.ductile import POLLS, DuctileNode, load_file, requests_to
from tests.servers.everwhen_database import PostgresDatabase
from tests.targets.plugins import put_plugin
from tests.targets.running import until

MakeNode = Callable[..., DuctileNode]


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[MakeNode]:
    """Nodes on SQLite files, each with its ledger checked at the end."""
    made: list[DuctileNode] = []

    def make(file: str, **keys: Any) -> DuctileNode:
        made.append(DuctileNode(tmp_path, file, **keys))
        return made[-1]

    yield make
    for node in made:
        node.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ductile.db"
    database: PostgresDatabase = request.getfixturevalue("everwhen_on_18")
    return database.empty()


def one_schedule(fields: str) -> str:
    return f"plugins: {{withings: {{schedules: [{{id: only, {fields}}}]}}}}"


TWO = """
plugins:
  withings:
    schedules:
    - {id: fast, command: poll, every: 10m, catch_up: run_all}
    - {id: slow, command: token_refresh, every: 1h, catch_up: run_once}
"""


def test_d2_each_entry_is_tracked_by_itself_so_that_catch_up_and_next_run_are_stable_over_restarts(
    make_node: MakeNode, url: str
) -> None:
    node = make_node(TWO, url=url)
    node.scheduler.advance("25m")
    assert node.next_runs() == {"fast": "08:30", "slow": "09:00"}
    node.scheduler.sleep("20m")  # 08:45
    node.restart()
    assert node.next_runs() == {"fast": "08:30", "slow": "09:00"}  # nothing was counted anew
    node.scheduler.step()
    assert node.slots("withings.fast", "catch_up") == ["08:30"]
    assert node.slots("withings.fast") == ["08:00", "08:10", "08:20", "08:30", "08:40"]
    assert node.slots("withings.slow") == ["08:00"]  # it was behind with nothing
    assert node.next_runs() == {"fast": "08:50", "slow": "09:00"}
    node.scheduler.sleep("2h30m")  # 11:15: both are behind, each by its own slots
    node.restart()
    node.scheduler.step()
    assert len(node.slots("withings.fast", "catch_up")) == 1 + 14  # 08:50 to 11:00; 11:10 is not late yet
    assert node.slots("withings.slow", "catch_up") == ["11:00"]  # for 09:00, 10:00 and 11:00
    assert node.next_runs() == {"fast": "11:20", "slow": "12:00"}
    assert node.reported().count("token_refresh") == 2  # every job was a run of the program
    assert node.reported().count("poll") == len(node.slots("withings.fast")) == 5 + 15
    node.restart()
    node.scheduler.step()
    assert len(node.reported()) == 2 + 20  # what was caught up stays so


SAME_COMMAND = """
plugins:
  withings:
    schedules:
    - {id: ada, every: 10m, payload: {user: ada}}
    - {id: bob, every: 10m, payload: {user: bob}}
"""


def test_d46_by_a_file_that_sets_no_guard_one_poll_at_a_time_and_each_entry_with_its_own_payload(
    make_node: MakeNode, url: str
) -> None:
    node = make_node(SAME_COMMAND, url=url)
    s, names = node.scheduler, ("withings.ada", "withings.bob")
    s.step(work=False)
    held = [name for name in names if s.state(name).held_reason == "outstanding_limit"]
    assert (len(s.jobs()), len(held)) == (1, 1)
    s.advance("25m")
    for name in names:
        assert node.slots(name) == ["08:00", "08:10", "08:20"]
        assert s.events(name, "schedule.skipped", "schedule.missed") == []
    users = [request["payload"]["user"] for request in requests_to(node.plugins, "withings")]
    assert sorted(users) == ["ada"] * 3 + ["bob"] * 3


def test_d12_after_is_a_delay_from_creation_which_no_restart_and_no_reload_begins_anew(
    make_node: MakeNode,
) -> None:
    node = make_node(one_schedule("after: 1h30m"))
    assert node.next_runs() == {"only": "09:30"}
    node.scheduler.sleep("20m")
    node.restart()  # the service starts again, and reads `after: 1h30m` again
    node.scheduler.sleep("20m")
    node.load(one_schedule("after: 1h30m, payload: {source: scheduler}"))
    assert node.next_runs() == {"only": "09:30"}
    node.scheduler.run_until("2026-01-05T09:29:59Z")
    assert node.reported() == []
    node.scheduler.advance("1s")
    assert (node.slots("withings.only"), node.reported()) == (["09:30"], ["poll"])
    node.scheduler.sleep("2h")
    node.restart()
    node.scheduler.advance("2h")
    assert (node.reported(), node.entries("status")) == (["poll"], {("withings", "only"): "exhausted"})


def test_d12_an_edit_of_after_counts_from_the_edit(make_node: MakeNode) -> None:
    node = make_node(one_schedule("after: 1h30m"))
    node.scheduler.sleep("40m")
    node.load(one_schedule("after: 2h"))
    assert node.next_runs() == {"only": "10:40"}


# The service is down from 08:30 to 11:40: the slots of each trigger in that time, and what is made of them by default.
# The next slot of a chain is counted from the end of the last: one that runs at 11:40, or one that was missed at 09:30.
TRIGGERS = {
    "every": ("every: 1h, first_run: after_interval", ["09:30", "10:30", "11:30"], []),
    "monthly": ("every: monthly, start_at: 2025-12-05T09:00:00Z", ["09:00"], []),
    "cron": ("cron: 0 * * * *", ["09:00", "10:00", "11:00"], []),
    "at": ("at: 2026-01-05T10:00:00Z", ["10:00"], ["10:00"]),
    "after": ("after: 1h", ["09:30"], ["09:30"]),
    "chain": ("every: 1h, first_run: after_interval, interval_from: completion", ["09:30"], ["09:30"]),
}


def one_of_each(catch_up: str) -> str:
    entries = [f"    - {{id: {name}, {fields}{catch_up}}}" for name, (fields, _, _) in TRIGGERS.items()]
    return "\n".join(["plugins:", "  withings:", "    schedules:", *entries])


@pytest.mark.parametrize("catch_up", ["run_all", "run_once", "skip", None])
def test_d20_catch_up_serves_every_trigger_and_has_its_default_for_each(
    make_node: MakeNode, catch_up: str | None
) -> None:
    file = one_of_each("" if catch_up is None else f", catch_up: {catch_up}")
    node = make_node(file, start="2026-01-05T08:30:00Z")
    node.scheduler.step()
    node.scheduler.sleep("3h10m")
    for _ in range(2):  # what was caught up is not caught up again
        node.restart()
        node.scheduler.step()
    runs = 0
    for name, (_, missed, by_default) in TRIGGERS.items():
        expected = {"run_all": missed, "run_once": missed[-1:], "skip": [], None: by_default}[catch_up]
        assert node.slots(f"withings.{name}") == node.slots(f"withings.{name}", "catch_up") == expected
        runs += len(expected)
        if not expected:
            events = node.scheduler.events(f"withings.{name}", "schedule.missed")
            assert [event.reason for event in events] == ["down"] * (3 if name == "chain" else len(missed))
    assert node.reported() == ["poll"] * runs


GUARDED = """
plugins:
  withings:
    schedules:
    - {id: one, every: 1h}
    - {id: two, every: 20m, first_run: after_interval}
    - {id: refresh, command: token_refresh, every: 20m}
  garmin: {schedule: {every: 20m}}
"""


def state(node: DuctileNode, local_id: str) -> State:
    return node.scheduler.state(f"withings.{local_id}")


@pytest.mark.parametrize("is_running", [False, True])
def test_d25_a_poll_is_held_while_another_of_its_plugin_is_queued_or_running(
    make_node: MakeNode, is_running: bool
) -> None:
    node = make_node(GUARDED)
    node.scheduler.tick()
    jobs = node.scheduler.claim() if is_running else []
    node.scheduler.advance("20m", work=False)
    assert node.slots("withings.two") == []
    assert (state(node, "two").held_reason, state(node, "two").held_key) == (
        "outstanding_limit",
        "guard:withings:poll",
    )
    node.restart()  # it waits on, in the database
    assert state(node, "two").held_slot_at is not None
    node.scheduler.clock.advance("1m")
    if is_running:
        for job in jobs:
            node.scheduler.settle(job)
    node.scheduler.step()
    (held,) = node.scheduler.jobs("withings.two")
    assert f"{held.slot:%H:%M}" == "08:20"
    assert held.created_at == node.clock.now()  # in the moment in which the place was free
    assert node.slots("withings.one") == ["08:00"]


def test_d25_a_held_poll_is_superseded_by_the_next_slot_of_its_schedule_on_record(
    make_node: MakeNode,
) -> None:
    node = make_node(GUARDED)
    node.scheduler.tick()
    (running,) = [job for job in node.scheduler.claim() if job.job.schedule_id == "withings.one"]
    node.scheduler.advance("40m", work=False)
    (skipped,) = node.scheduler.events("withings.two", "schedule.skipped")
    assert (skipped.reason, (skipped.detail or {})["held"]) == ("superseded", "outstanding_limit")
    node.scheduler.settle(running)
    node.scheduler.step()
    assert node.slots("withings.two") == ["08:40"]


def test_d25_the_guard_is_of_one_plugin_and_one_command(make_node: MakeNode) -> None:
    node = make_node(GUARDED)
    node.scheduler.tick()
    assert {job.job.schedule_id for job in node.scheduler.claim()} == {
        "withings.one",
        "withings.refresh",
        "garmin.default",
    }


# Says so when another one is there already, and stays until it is let go.
EXCLUSIVE = """#!/bin/sh
cat >/dev/null
mkdir "$0.busy" || echo >>"$0.overlap"
while [ ! -e "$0.go" ]; do sleep 0.02; done
echo >>"$0.ran"
rmdir "$0.busy"
echo '{"status": "ok"}'
"""
POLLED_BY_TWO = """
plugins:
  withings:
    schedules:
    - {id: one, every: 1s, if_running: allow}
    - {id: two, every: 1s, if_running: allow}
"""


@contextmanager
def two_nodes(folder: Path, url: str, file: str) -> Iterator[Runtime]:
    """Two whole nodes on one database, each with a loop, workers and connections of its own."""
    (folder / "everwhen.yaml").write_text(file)
    stacks = [open_stack(url) for _ in range(2)]
    load_file(folder / "everwhen.yaml", stacks[0].runtime)
    services = [
        build_service(
            stack,
            ServiceOptions(check_interval=0.2),
            target_registry=open_target_registry(stack.runtime, plugin_dirs=[folder / "plugins"]),
        )
        for stack in stacks
    ]
    for service in services:
        service.start()
    try:
        yield stacks[0].runtime
    finally:
        for service, stack in zip(services, stacks, strict=True):
            service.stop()
            stack.close()


def test_d25_polls_of_two_nodes_on_one_database_never_run_beside_each_other(
    tmp_path: Path, everwhen_on_18: PostgresDatabase
) -> None:
    program = put_plugin(tmp_path / "plugins", program=EXCLUSIVE) / "run.sh"
    busy, overlap, go, ran = (Path(f"{program}.{word}") for word in ("busy", "overlap", "go", "ran"))
    with two_nodes(tmp_path, everwhen_on_18.empty(), POLLED_BY_TWO) as runtime:

        def states() -> list[State]:
            return [get_schedule(runtime, f"withings.{name}").state for name in ("one", "two")]

        def is_one_alone() -> bool:
            found = states()
            are_held = {each.held_reason for each in found} == {"outstanding_limit"}
            return busy.exists() and are_held and min(each.skip_count for each in found) > 0

        try:
            # One runs; of the other, and of its own next slots, nothing begins: they are held, and superseded.
            until(lambda: overlap.exists() or is_one_alone())
            assert sum(each.fire_count for each in states()) == 1
        finally:
            go.touch()
        until(lambda: min(each.run_count for each in states()) > 0)
    assert not overlap.exists()
    assert len(ran.read_text()) >= 2


STATUSES = """
plugins:
  withings:
    schedules:
    - {id: on, every: 1h}
    - {id: stopped, every: 1h, max_outstanding: 9}
    - {id: drifted, command: token_refresh, every: 1h}
    - {id: once, after: 1m, max_outstanding: 9}
"""


def test_d32_the_four_words_of_ductile_are_in_its_table_and_in_the_filter_of_the_api(
    make_node: MakeNode, tmp_path: Path, url: str
) -> None:
    node = make_node(STATUSES, url=url)
    with serving(tmp_path, file=STATUSES, url=url, clock=node.clock) as service:
        node.scheduler.step()
        assert set(node.entries("status").values()) == {"active"}
        assert service.admin.post("/schedules/withings.stopped/pause/").status == 200
        put_plugin(node.plugins, program=POLLS, commands=[{"name": "poll"}])
        node.scheduler.advance("1h")
        expected = {
            "on": "active",
            "stopped": "paused_manual",
            "drifted": "paused_invalid",
            "once": "exhausted",
        }
        assert node.entries("status") == {("withings", name): word for name, word in expected.items()}
        for name, word in expected.items():
            (found,) = service.admin.get(f"/schedules/?status={word}").fields["items"]
            assert found["id"] == f"withings.{name}"


TWO_PLUGINS = """
plugins:
  withings: {schedules: [{id: hourly, every: 1h}]}
  garmin: {schedules: [{id: hourly, every: 1h}]}
"""


def test_d50_what_is_paused_invalid_or_active_is_so_by_plugin_and_schedule_after_every_restart(
    make_node: MakeNode,
) -> None:
    node = make_node(TWO_PLUGINS)
    target = plugin_target("withings", "token_refresh")
    node.scheduler.add("submitted", group="withings", target=target, command="token_refresh", every="1h")
    node.scheduler.step()
    node.scheduler.pause("withings.hourly", note="holidays")
    put_plugin(node.plugins, program=POLLS, commands=[{"name": "poll"}])  # token_refresh is gone
    node.scheduler.advance("1h")
    kept = {
        ("withings", "hourly"): "paused_manual",
        ("garmin", "hourly"): "active",  # the same id in another plugin is another entry
        ("withings", "submitted"): "paused_invalid",
    }
    names = ["withings.hourly", "garmin.hourly", "submitted"]
    before = [node.scheduler.state(name) for name in names]
    node.scheduler.close()  # nobody has it open: what is read now is in the file
    assert node.entries("status") == kept
    for _ in range(2):
        node.restart()
        assert node.entries("status") == kept
    assert [node.scheduler.state(name) for name in names] == before
    assert (before[0].paused_by, before[0].status_reason) == ("person", "holidays")
    node.scheduler.advance("2h")
    assert node.slots("withings.hourly") == ["08:00"]
    assert node.slots("submitted") == ["08:00", "09:00"]  # the one that found its command gone is the last
    assert node.slots("garmin.hourly") == ["08:00", "09:00", "10:00", "11:00"]
    assert (node.reported(), len(node.reported("garmin"))) == (["poll", "token_refresh"], 4)
