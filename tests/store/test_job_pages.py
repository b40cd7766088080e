"""Which way a page of jobs is looked for: through an index where one serves, else by a walk that is bounded."""

from __future__ import annotations

import pytest

from everwhen.model.queries import JobFilter
from everwhen.store.job_pages import COUNTED, FEW_JOBS, MOST_UIDS, WALK, Rows, Way, page_of, way_of

MILLION = Rows(1, 1_000_000)


@pytest.mark.parametrize(
    ("wanted", "schedules", "is_walk", "has_uids"),
    [
        (JobFilter(), None, False, False),
        (JobFilter(statuses=["failed"]), None, False, False),
        (JobFilter(statuses=["queued", "running"]), None, False, False),
        (JobFilter(statuses=["succeeded"]), None, True, False),
        (JobFilter(origins=["manual"]), None, True, False),
        (JobFilter(uid="a"), [("a", 3)], False, True),
        (JobFilter(uid="a"), [("a", FEW_JOBS + 1)], True, False),
        (JobFilter(owner="ada"), [("a", 1)] * (MOST_UIDS + 1), True, False),
        (JobFilter(owner="ada"), [], False, True),
    ],
)
def test_the_way_is_chosen_by_what_is_asked_for(
    wanted: JobFilter, schedules: list[tuple[str, int]] | None, is_walk: bool, has_uids: bool
) -> None:
    way = way_of(wanted, schedules)
    assert (way.is_walk, way.uids is not None) == (is_walk, has_uids)


def test_a_walk_ends_after_a_while_and_says_where_it_was() -> None:
    way = Way(None, is_walk=True)
    floor = way.floor(MILLION, None)
    assert floor == 1_000_001 - WALK
    page = page_of([], 0, limit=50, floor=floor, rows=MILLION, way=way, is_all=False)
    assert (page.next_before, page.is_approximate) == (floor, True)
    last = way.floor(MILLION, 100)
    page = page_of([], 0, limit=50, floor=last, rows=MILLION, way=way, is_all=False)
    assert page.next_before is None


def test_everything_is_estimated_by_its_numbers() -> None:
    way = way_of(JobFilter(), None)
    page = page_of([], COUNTED + 1, limit=50, floor=0, rows=MILLION, way=way, is_all=True)
    assert (page.total, page.is_approximate) == (1_000_000, True)
