"""The janitor: when it forgets, and when it had better not."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import cast

from everwhen.decide.retention import cutoffs
from everwhen.engine.janitor import AFTER_A_STEP, EVERY, FIRST_AFTER, Janitor
from everwhen.model.retention import PASS_START, Cutoffs, Portion, Retention, RetentionPosition
from everwhen.store.maintenance import Upkeep
from everwhen.store.opened import store_of
from everwhen.store.sqlite.space import KEPT_PAGES, KEPT_SHARE
from everwhen.testing import manual_scheduler
from everwhen.testing.manual import ManualScheduler

START = "2026-01-05T08:00:00Z"


def test_a_pass_forgets_in_portions_and_begins_again_later() -> None:
    s = manual_scheduler(START)
    s.add("a", every="2h", if_running="allow")
    s.advance("90d")
    janitor = Janitor(store_of(s.runtime).upkeep, s.clock, Retention(), threading.Event())
    portions = 1
    while janitor.portion():
        portions += 1
    assert portions > 5
    oldest = s.jobs("a")[0].job
    assert oldest.ended_at is not None and s.clock.now() - oldest.ended_at <= Retention().jobs
    assert s.check().is_clean
    left = len(s.jobs("a"))
    s.advance("1d")
    while janitor.portion():
        pass
    assert len(s.jobs("a")) == left


class Waits(threading.Event):
    """Nobody waits in a test: the clock is moved instead, and the waits are counted."""

    def __init__(self, s: ManualScheduler) -> None:
        super().__init__()
        self.s = s
        self.seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds += timeout or 0.0
        self.s.clock.advance(1)
        return self.is_set()


def test_it_waits_before_its_first_pass_and_between_two() -> None:
    s = manual_scheduler(START)
    waits = Waits(s)
    janitor = Janitor(store_of(s.runtime).upkeep, s.clock, Retention(), waits)
    janitor.step()
    assert waits.seconds >= FIRST_AFTER
    while janitor.portion():
        pass
    waits.seconds = 0.0
    janitor.step()
    assert waits.seconds >= EVERY - 1


def test_after_a_step_of_the_clock_it_forgets_nothing_for_a_day() -> None:
    s = manual_scheduler(START)
    waits = Waits(s)
    janitor = Janitor(store_of(s.runtime).upkeep, s.clock, Retention(), waits)
    s.clock.advance(int(FIRST_AFTER) - 1)
    janitor.distrust_clocks()
    janitor.step()
    assert waits.seconds >= AFTER_A_STEP - 1


def test_it_ends_with_the_service_in_the_middle_of_a_wait() -> None:
    s = manual_scheduler(START)
    ended = threading.Event()
    janitor = Janitor(store_of(s.runtime).upkeep, s.clock, Retention(), ended)
    ended.set()
    janitor.step()  # or this test would last ten minutes
    assert ended.is_set()


# -- how fast --


class SlowUpkeep:
    """Rows without end; each portion takes a tenth of a second, of which the writer is kept for `turn` seconds."""

    def __init__(self, s: ManualScheduler, *, turn: float = 0.004, written_a_second: int = 0) -> None:
        self.s = s
        self.turn = turn
        self.written_a_second = written_a_second
        self.limits: list[int] = []

    def forget(self, _before: Cutoffs, place: RetentionPosition, *, limit: int) -> Portion:
        self.limits.append(limit)
        self.s.clock.advance(timedelta(seconds=0.1))
        return Portion(place.what, limit, place, limit, self.turn)

    def rows_written(self) -> int:
        return int(self.s.clock.monotonic() * self.written_a_second)


def deleted_a_second(upkeep: SlowUpkeep, seconds: float = 120.0) -> float:
    """Return how many rows go in a second, without the time until the first looks at what is written."""
    s = upkeep.s
    janitor = Janitor(cast(Upkeep, upkeep), s.clock, Retention(), Waits(s), first_after=0.0)
    began, rows = s.clock.monotonic(), 0
    while (now := s.clock.monotonic()) < began + seconds:
        if now > began + 30.0 and not rows:
            began, rows = now, 1
        janitor.portion()
        rows += upkeep.limits[-1] if rows else 0
        s.clock.advance(timedelta(seconds=max(janitor.due_at - s.clock.monotonic(), 0.0)))
    return rows / (s.clock.monotonic() - began)


def test_it_rests_for_long_where_little_is_written() -> None:
    found = deleted_a_second(SlowUpkeep(manual_scheduler(START), written_a_second=10))
    assert 450 <= found <= 550  # a tenth of the time


def test_it_deletes_faster_than_rows_are_written() -> None:
    found = deleted_a_second(SlowUpkeep(manual_scheduler(START), written_a_second=2_000))
    assert 1.2 * 2_000 <= found <= 2 * 2_000


def test_a_portion_that_keeps_the_writer_for_long_is_followed_by_smaller_ones() -> None:
    upkeep = SlowUpkeep(manual_scheduler(START), turn=0.015)
    deleted_a_second(upkeep, 20.0)
    assert upkeep.limits[0] == 500 and upkeep.limits[-1] == 25
    upkeep.turn = 0.001
    upkeep.limits.clear()
    deleted_a_second(upkeep, 20.0)
    assert max(upkeep.limits) == 500


def test_a_pass_ends_by_giving_space_back(tmp_path: Path) -> None:
    s = manual_scheduler(START, database=f"sqlite:///{tmp_path}/everwhen.db")
    s.add("a", every="4h", if_running="allow", payload={"text": "x" * 10_000})
    s.advance("60d")
    s.clock.advance("60d")
    janitor = Janitor(store_of(s.runtime).upkeep, s.clock, Retention(), threading.Event())
    while janitor.portion():
        pass
    path = tmp_path / "everwhen.db"
    with closing(sqlite3.connect(path)) as connection:
        free, pages = (
            connection.execute(f"PRAGMA {name}_count").fetchone()[0] for name in ("freelist", "page")
        )
    assert free <= max(KEPT_PAGES, pages // KEPT_SHARE)
    assert s.check().is_clean
    s.stack.close()


def test_a_portion_deletes_no_more_rows_than_it_may() -> None:
    s = manual_scheduler(START)
    s.add("a", every="1h", if_running="allow")
    s.advance("10d")
    s.clock.advance("200d")
    place: RetentionPosition | None = PASS_START
    rows = []
    while place is not None:
        portion = store_of(s.runtime).upkeep.forget(cutoffs(Retention(), s.clock.now()), place, limit=40)
        rows.append(portion.rows)
        place = portion.next
    assert sum(rows) > 200 and max(rows) <= 40
