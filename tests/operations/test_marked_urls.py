"""URLs are marked by the surface through which they came."""

from __future__ import annotations

import json

import pytest

from everwhen.model.schedule import Target
from everwhen.operations.schedules import get_schedule
from everwhen.testing import manual_scheduler
from tests.submissions import Submission, create_schedule, update_schedule


@pytest.mark.parametrize("source", ["api", "config"])
def test_a_url_is_marked_with_its_surface_whatever_it_says_of_itself(source: str) -> None:
    s = manual_scheduler()
    target = Target("http", json.dumps({"url": "http://127.0.0.1/", "source": "config"}))
    submission = Submission("a", {"every": "1h"}, target, source=source)
    for write in (create_schedule, update_schedule):
        write(s.runtime, submission)
        schedule = get_schedule(s.runtime, "a")
        assert json.loads(schedule.definition.target.spec) == {"url": "http://127.0.0.1/", "source": source}
