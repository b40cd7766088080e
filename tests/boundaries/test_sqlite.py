"""Whatever fault happens at whatever statement, on SQLite: all of it or nothing is stored, and the work continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.errors import StoreError
from tests.boundaries.benches import Image, SqliteBench, ask_again, image_of, recover, site_of
from tests.boundaries.every_flow import every_flow
from tests.boundaries.faults import Blow, Strike, fail_to_write, fill_the_disk, keep_it_locked
from tests.boundaries.flows import Flow
from tests.boundaries.process import Arrivals
from tests.boundaries.tap import Boundary, Side

Where = tuple[int, Side, str]


class Course:
    """A flow without faults: its statements, and the image after each commit."""

    def __init__(self, bench: SqliteBench) -> None:
        self.left_behind: list[tuple[Path, int, Arrivals]] = []
        self.boundaries: list[Where] = []
        run = bench.begin()
        self.images: list[Image] = [run.image()]

        def look(boundary: Boundary) -> None:
            number, side, statement, _ = boundary
            if side == "after" and boundary.is_commit:
                self.images.append(run.image())
            self.boundaries.append((number, side, statement))
            left_behind = (bench.copy_files(run), len(self.images) - 1, run.runtime.arrivals.copy())
            self.left_behind.append(left_behind)

        run.act(look)
        run.close()
        assert self.images[0] != self.images[-1], "the flow does nothing"


@every_flow
def test_whoever_dies_at_any_statement_leaves_what_was_committed(folder: Path, flow: Flow) -> None:
    """At a boundary the image of the last commit is left, so one recovery from each image is enough."""
    bench = SqliteBench(folder, flow)
    course = Course(bench)
    last: dict[int, tuple[Path, Arrivals]] = {}
    for path, commits, arrivals in course.left_behind:
        last[commits] = path, arrivals
        copy = path.with_suffix(".image")
        copy.write_bytes(path.read_bytes())
        wal = Path(f"{path}-wal")
        if wal.exists():
            Path(f"{copy}-wal").write_bytes(wal.read_bytes())
        assert image_of(f"sqlite:///{copy}") == course.images[commits]
    for path, arrivals in last.values():
        run = bench.enter(site_of(path), "node-2", arrivals)
        recover(run, run.runtime)
        run.close()


def wanted(course: Course, strike: Strike, is_long: bool) -> list[Where]:
    """Return where a fault of this kind can happen: a disk fills before any statement, the others around a
    transaction."""
    before = [where for where in course.boundaries if where[1] == "before"]
    if strike is fill_the_disk or is_long:
        found = before
    elif strike is keep_it_locked:
        found = [where for where in before if where[2].startswith("BEGIN")]
    else:
        found = [where for where in before if where[2] == "COMMIT"]
    committed = [where for where in course.boundaries if where[1:] == ("after", "COMMIT")]
    return found + (committed if strike is fail_to_write else [])


def strike_everywhere(folder: Path, flow: Flow, *, is_long: bool) -> int:
    bench = SqliteBench(folder, flow)
    course = Course(bench)
    runs = 0
    for strike in (fill_the_disk, keep_it_locked, fail_to_write):
        for number, side, _ in wanted(course, strike, is_long):
            go_on_after(bench, course, Blow(number, side, strike))
            runs += 1
    return runs


def go_on_after(bench: SqliteBench, course: Course, blow: Blow) -> None:
    """Let the same process continue: what it has cached must agree with what is stored."""
    run = bench.begin()
    try:
        run.act(blow)
    except StoreError:
        assert run.image() == course.images[blow.commits]
    else:
        assert run.image() == course.images[-1]
    assert blow.has_struck
    ask_again(run)


@every_flow
def test_a_fault_at_any_statement_leaves_all_or_nothing_and_the_process_goes_on(
    folder: Path, flow: Flow
) -> None:
    strike_everywhere(folder, flow, is_long=False)


@pytest.mark.long
@every_flow
def test_every_fault_at_every_statement_leaves_all_or_nothing(folder: Path, flow: Flow) -> None:
    strike_everywhere(folder, flow, is_long=True)
