"""Row W5: what is removed stays removed, and what is misconfigured is said once."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen import Scheduler
from everwhen.errors import UnknownScheduleError
from everwhen.model.queries import JobFilter
from everwhen.store.opened import store_of
from tests.crash.nodes import check, opened
from tests.rows.served import ServedNode, served
from tests.targets.plugins import put_plugin
from tests.targets.running import is_alive, pid_in, until

WITHINGS = """plugins:
  withings:
    schedules:
    - {id: refresh, command: token_refresh, every: 1m, max_retries: 5}
"""


def statuses(url: str) -> list[tuple[str, str]]:
    """Oldest first."""
    with opened(url) as stack:
        jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=100)
        return [(job.uid, job.status) for job in reversed(jobs)]


def test_w5_removing_and_adding_again_leaves_no_stale_state_and_a_finishing_run_revives_nothing(
    tmp_path: Path,
) -> None:
    url, mark, go = f"sqlite:///{tmp_path}/a.db", tmp_path / "pid", tmp_path / "go"
    slow = f"echo $$ > {mark}; until [ -e {go} ]; do sleep 0.02; done; exit 1"
    scheduler = Scheduler(url)
    first = scheduler.add("a", every="1h", run={"command": ["sh", "-c", slow]})
    scheduler.start()
    pid = pid_in(mark)
    scheduler.remove("a")
    assert is_alive(pid)
    go.touch()  # it ends, and fails, when its schedule is gone
    until(lambda: [status for _, status in statuses(url)] == ["failed"])
    for _ in range(2):
        with pytest.raises(UnknownScheduleError):
            scheduler.get_schedule("a")
        scheduler.stop()
        scheduler.close()
        scheduler.start()  # nor does it come back with the next start
    second = scheduler.add("a", every="1h", run={"command": ["true"]})
    assert second.uid != first.uid
    assert (second.run_count, second.error_count, second.fire_count, second.last_error) == (0, 0, 0, None)
    until(lambda: scheduler.get_schedule("a").run_count == 1)
    scheduler.stop()
    assert scheduler.get_schedule("a").error_count == 0
    scheduler.close()
    assert statuses(url) == [(first.uid, "failed"), (second.uid, "succeeded")]
    assert check(url).is_clean


def invalidations(node: ServedNode) -> list[str]:
    found = node.admin.get("/audit/?type=schedule.invalidated").fields["items"]
    return [event["schedule_id"] for event in found]


def test_w5_a_misconfigured_schedule_is_reported_once_not_each_tick(tmp_path: Path) -> None:
    put_plugin(tmp_path / "plugins")
    with served(tmp_path, file=WITHINGS) as node:
        node.scheduler.step()
        put_plugin(tmp_path / "plugins", commands=[{"name": "poll"}])  # its command is gone
        node.scheduler.advance("1h")
        node.scheduler.restart()
        node.scheduler.advance("1h")
        assert [job["status"] for job in node.jobs("withings.refresh")] == ["succeeded", "failed"]
        assert invalidations(node) == ["withings.refresh"]
        schedule = node.schedule("withings.refresh")
        assert (schedule["status"], schedule["next_run_at"]) == ("invalid", None)
