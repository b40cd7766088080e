"""A fault at any statement of a copy to PostgreSQL: slots fire on one side at the most, and the next copy ends it.

In the short form faults happen at the three commits of a copy, in the long form at every statement. Either database
may fail, the file or the server; or the process dies.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from everwhen.errors import MovedError
from everwhen.store.sqlite.database import open_sqlite
from everwhen.store.sqlite.move import SqliteMove
from everwhen.wiring import move_database, open_node_stack
from tests.boundaries.benches import image_of, wait_for_what_was_cut_off
from tests.boundaries.tap import Boundary
from tests.boundaries.whole_databases import Where, fail, statements_of, strike_once
from tests.copying.installation import make_installation, on_target
from tests.servers.everwhen_database import PostgresDatabase

COMMITS = 3  # the source is marked, the target has everything, the source is marked again


class Course:
    """A copy without faults: its statements, and the image of the target after it.

    `left_behind`: the source as a process leaves it that is killed before a commit or at the end, and whether the copy
    has arrived by then.
    """

    def __init__(self, folder: Path, database: PostgresDatabase) -> None:
        self._folder, self._database, self._count = folder, database, 0
        self.left_behind: list[tuple[Path, bool]] = []
        source, self.target = self.lay_out(), database.empty()
        look = partial(self._look, Path(source.removeprefix("sqlite:///")))
        self.boundaries = statements_of(partial(move_database, source, self.target), look)
        self.image = image_of(self.target)

    @property
    def commits(self) -> list[Boundary]:
        """Return both sides of the commits of the copy; those before them are of migrations."""
        return [boundary for boundary in self.boundaries if boundary.is_commit][-2 * COMMITS :]

    def lay_out(self) -> str:
        """Return an installation on a file."""
        return make_installation(self._new_folder()).url

    def empty_target(self) -> None:
        self._database.empty()

    def strike(self, where: Where) -> None:
        """Let a disk or a connection fail, look on which side slots can fire, and copy again."""
        source = self.lay_out()
        self.empty_target()
        error = strike_once(partial(move_database, source, self.target), where, fail)
        wait_for_what_was_cut_off(self.target)
        if error is None:
            assert has_arrived(self.target)
        self.finish(source)

    def finish(self, source: str) -> None:
        was_there = has_arrived(self.target)
        assert not (was_there and is_open(source))
        assert move_database(source, self.target).is_new is not was_there
        assert not is_open(source)
        assert image_of(self.target) == self.image

    def _look(self, path: Path, boundary: Boundary) -> None:
        if not boundary.is_commit:
            return
        folder = self._new_folder()
        for file in path.parent.glob(f"{path.name}*"):
            shutil.copyfile(file, folder / file.name)
        self.left_behind.append((folder / path.name, has_arrived(self.target)))

    def _new_folder(self) -> Path:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        return folder


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def state_of(path: Path) -> str:
    with closing(open_sqlite(url_of(path))) as database:
        move = SqliteMove(database).move()
        return "open" if move is None else move.state


def is_open(source: str) -> bool:
    """Return whether a node can start on the source."""
    try:
        open_node_stack(source).close()
    except MovedError:
        return False
    return True


def has_arrived(target: str) -> bool:
    """Return whether the target has the copy; without it, it has no schedule either."""
    with psycopg.connect(target) as connection:
        marks = connection.execute("SELECT count(*) FROM settings WHERE key = 'copied_from'").fetchall()
        schedules = connection.execute("SELECT count(*) FROM schedules").fetchall()
    assert (marks[0][0] == 0) == (schedules[0][0] == 0)
    return marks != [(0,)]


@pytest.fixture
def course(folder: Path, everwhen_on_18: PostgresDatabase) -> Iterator[Course]:
    course = Course(folder, everwhen_on_18)
    yield course
    course.empty_target()


def test_a_copy_that_is_killed_between_its_commits_is_finished_by_the_next(course: Course) -> None:
    """Between two commits the file keeps the content of the first one, whatever the process has sent since."""
    left_behind = {(state_of(path), has_come): path for path, has_come in course.left_behind}
    assert list(left_behind) == [("open", False), ("moving", False), ("moving", True), ("moved", True)]
    for (_, has_come), path in left_behind.items():
        if not has_come:  # otherwise the one before has brought it there: it is of the same process
            course.empty_target()
        course.finish(url_of(path))


def test_a_fault_at_a_commit_of_a_copy_is_put_right_by_the_next(course: Course) -> None:
    for boundary in course.commits:
        course.strike((boundary.number, boundary.side))
    with on_target(course.target) as scheduler:
        scheduler.run_until("2026-01-05T11:00:00Z")
        assert scheduler.check().is_clean, scheduler.check()


@pytest.mark.long
def test_a_fault_at_any_statement_of_a_copy_is_put_right_by_the_next(course: Course) -> None:
    for boundary in course.boundaries:
        course.strike((boundary.number, boundary.side))
