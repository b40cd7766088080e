"""A start takes the same number of statements however many schedules there are, and so does a heartbeat."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from everwhen import Scheduler
from everwhen.model.queries import ScheduleFilter
from everwhen.model.schedule import State, Target
from everwhen.model.values import program_of
from everwhen.operations.local_functions import MOST, invalidate_orphans
from everwhen.store.opened import store_of
from everwhen.wiring import Stack, open_stack
from tests.open_connections import every_statement
from tests.submissions import Submission, create_schedules

FEW, MANY = 10, 50_000
AT_ONCE = 5_000
NEVER = {"every": "365d", "first_run": "after_interval"}


def with_schedules(tmp_path: Path, count: int) -> str:
    url = f"sqlite:///{tmp_path}/{count}.db"
    stack = open_stack(url)
    target = Target("python", json.dumps({"function": "tests.scheduler.signatures:defaults"}))
    for begin in range(0, count, AT_ONCE):
        numbers = range(begin, min(begin + AT_ONCE, count))
        create_schedules(
            stack.runtime, [Submission(f"s{n}", NEVER, target, source="python") for n in numbers]
        )
    stack.close()
    return url


@contextmanager
def statements_of_this_thread() -> Iterator[list[str]]:
    statements: list[str] = []
    thread = threading.current_thread()

    def note(statement: str) -> None:
        if threading.current_thread() is thread:
            statements.append(statement)

    with every_statement(note):
        yield statements


@contextmanager
def beside_others(url: str) -> Iterator[None]:
    """Let one process with a function of its own be gone, and another run."""
    with Scheduler(url, name="shop") as gone:
        gone.add("orphan", lambda: None, cron="0 0 1 1 *")
    with Scheduler(url, name="shop") as other:
        other.add("own", lambda: None, cron="0 0 1 1 *")
        yield


def statements_of_a_start(url: str) -> list[str]:
    with (
        beside_others(url),
        statements_of_this_thread() as statements,
        Scheduler(url, name="shop") as starting,
    ):
        taken = list(statements)
        assert starting.get_schedule("orphan").status == "invalid"
        assert starting.get_schedule("own").status == "active"
    return taken


def test_a_start_takes_as_many_statements_with_fifty_thousand_schedules_as_with_ten(tmp_path: Path) -> None:
    few, many = (statements_of_a_start(with_schedules(tmp_path, count)) for count in (FEW, MANY))
    assert len(many) == len(few), Counter(many) - Counter(few)


def test_a_heartbeat_beside_a_process_with_its_own_functions_reads_twice_and_writes_nothing(
    tmp_path: Path,
) -> None:
    url = with_schedules(tmp_path, FEW)
    with beside_others(url), closing(open_stack(url)) as stack:
        first = invalidate_orphans(stack.runtime, "shop", "mine", "gone")
        with statements_of_this_thread() as statements:
            assert invalidate_orphans(stack.runtime, "shop", "mine", "gone") == first
    assert first.may_have_more
    assert [program_of(queue) is not None for queue in first.queues] == [True]
    assert [statement.split()[0] for statement in statements] == ["WITH", "SELECT"]


def test_orphans_beyond_what_one_heartbeat_writes_are_left_to_the_next(tmp_path: Path) -> None:
    with closing(open_stack(f"sqlite:///{tmp_path}/shop.db")) as stack:
        target = Target("python", json.dumps({"function": "f", "name": "shop", "process": "gone"}))
        create_schedules(
            stack.runtime,
            [
                Submission(f"s{n}", NEVER, target, source="python", bound_to="shop/gone")
                for n in range(MOST + 1)
            ],
        )
        assert invalidate_orphans(stack.runtime, "shop", "mine", "gone").may_have_more
        assert len(active(stack)) == 1
        assert not invalidate_orphans(stack.runtime, "shop", "mine", "gone").may_have_more
        assert active(stack) == []


def active(stack: Stack) -> list[State]:
    return store_of(stack.runtime).catalogue.states(ScheduleFilter("active"), limit=10)
