"""Whatever fault happens at whatever statement, on PostgreSQL: all of it or nothing is stored, and the work
continues.

In the short form faults happen around every COMMIT, which decides whether anything is stored; in the long form before
and after every statement.
"""

from __future__ import annotations

import pytest

from everwhen.errors import StoreError
from tests.boundaries.benches import Image, PostgresBench, Run, ask_again, recover, wait_for_what_was_cut_off
from tests.boundaries.every_flow import every_flow
from tests.boundaries.faults import (
    DEADLOCK,
    DISK_FULL,
    SERIALIZATION,
    Blow,
    Death,
    Died,
    Strike,
    cut_the_connection,
    refuse,
)
from tests.boundaries.flows import Flow
from tests.boundaries.tap import Boundary, Side
from tests.servers.everwhen_database import PostgresDatabase

Where = tuple[int, Side]


class Course:
    """A flow without faults: where its commits are, and the image after each."""

    def __init__(self, bench: PostgresBench) -> None:
        self.before: list[Where] = []
        self.commits: list[Where] = []
        run = bench.begin()
        self.images: list[Image] = [run.image()]

        def look(boundary: Boundary) -> None:
            number, side, _, _ = boundary
            if side == "before":
                self.before.append((number, side))
            if boundary.is_commit:
                self.commits.append((number, side))
                if side == "after":
                    self.images.append(run.image())

        run.act(look)
        run.close()
        assert self.images[0] != self.images[-1], "the flow does nothing"


def die_at(bench: PostgresBench, course: Course, where: Where) -> None:
    death = Death(*where)
    run = bench.begin()
    with pytest.raises(Died):
        run.act(death)
    assert_is(run, course.images[death.commits])
    recover(run, run.another_node())
    run.close()


def go_on_after(bench: PostgresBench, course: Course, where: Where, strike: Strike) -> None:
    """Let the same process continue: what it has cached must agree with what is stored."""
    blow = Blow(*where, strike)
    run = bench.begin()
    try:
        run.act(blow)
    except StoreError:
        assert_is(run, course.images[blow.commits])
    else:
        assert_is(run, course.images[-1])
    assert blow.has_struck
    ask_again(run)


def assert_is(run: Run, image: Image) -> None:
    """Compare after the server has noticed a lost connection and rolled back what was open: by then its locks are
    gone."""
    wait_for_what_was_cut_off(run.runtime.site.url)
    assert run.image() == image


@every_flow
def test_a_fault_at_a_commit_leaves_all_or_nothing_and_the_process_goes_on(
    everwhen_on_18: PostgresDatabase, flow: Flow
) -> None:
    bench = PostgresBench(everwhen_on_18, flow)
    course = Course(bench)
    for where in course.commits:
        go_on_after(bench, course, where, cut_the_connection)  # after the commit: the answer is lost
        if where[1] == "before":
            go_on_after(bench, course, where, refuse(SERIALIZATION))


@pytest.mark.long
@every_flow
def test_every_fault_at_every_statement_leaves_all_or_nothing(
    everwhen_on_18: PostgresDatabase, flow: Flow
) -> None:
    bench = PostgresBench(everwhen_on_18, flow)
    course = Course(bench)
    for where in [*course.before, *course.commits]:
        die_at(bench, course, where)
        go_on_after(bench, course, where, cut_the_connection)
    for where in course.before:
        for state in (SERIALIZATION, DEADLOCK, DISK_FULL):
            go_on_after(bench, course, where, refuse(state))
