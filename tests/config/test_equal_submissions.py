"""Many schedules in one call: equal words are read once, and mean for each what they mean for one alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.compat.body_shapes import BODY_SHAPES
from everwhen.config.equal_submissions import EqualSubmissions
from everwhen.config.submission import SubmissionRules, read_submission, rules_of
from everwhen.errors import SchedulerError
from everwhen.model.declare import Declared
from tests.config.reading import host, read

RUN = {"command": ["ls"]}
AGENTS = "agents: {bot: {command: [x], max_concurrent: 1}}"


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> SubmissionRules:
    return rules_of(read(tmp_path_factory.mktemp("rules"), AGENTS), host(), [], bodies=BODY_SHAPES)


class Reader:
    """Reads many as a call does, and counts those that were really read."""

    def __init__(self, around: SubmissionRules) -> None:
        self.around = around
        self.equal = EqualSubmissions()
        self.count = 0

    def read(self, fields: Any, schedule_id: str) -> Declared:
        return self.equal.read(fields, schedule_id, partial(self._read, fields, schedule_id))

    def _read(self, fields: Any, schedule_id: str) -> Declared:
        self.count += 1
        return read_submission(fields, schedule_id, self.around)


def outcome(read: Any, fields: Any, schedule_id: str) -> object:
    try:
        return read(fields, schedule_id)
    except SchedulerError as error:
        return type(error), str(error)


FIELDS = st.fixed_dictionaries(
    {"every": st.sampled_from(["1h", "5m", "soon"])},
    optional={
        "name": st.sampled_from(["Backup", "ä", " ", "a" * 90, "x\0", "${HOME}", 7, None]),
        "run": st.sampled_from([RUN, {"command": ["cat"]}, {"agent": {"name": "bot"}}, {"python": 1}]),
        "enabled": st.sampled_from([True, False, 1]),
        "max_outstanding": st.sampled_from([0, 2, 2.0]),
        "circuit_breaker": st.sampled_from([False, {"threshold": 2}]),
        "total_repeats": st.sampled_from([1, True]),
        "payload": st.sampled_from([{"a": 1}, {"a": True}, {"a": 1.0}]),
        "max_retries": st.sampled_from([2, 3]),
    },
)


@given(st.lists(st.tuples(FIELDS, st.sampled_from(["a", "b", "c", "no name", ""])), max_size=12))
def test_what_is_read_once_is_what_each_would_be_alone(
    around: SubmissionRules, wanted: list[tuple[dict[str, Any], str]]
) -> None:
    reader = Reader(around)
    for fields, schedule_id in wanted:
        alone = outcome(partial(read_submission, rules=around), fields, schedule_id)
        assert outcome(reader.read, fields, schedule_id) == alone


def test_schedules_that_differ_in_id_and_name_are_read_once(around: SubmissionRules) -> None:
    reader = Reader(around)
    read = [
        reader.read({"name": f"Poll {number}", "cron": "0 * * * *", "run": RUN}, f"s{number}")
        for number in range(5)
    ]
    assert reader.count == 1
    assert [one.definition.name for one in read] == [f"Poll {number}" for number in range(5)]
    assert len({id(one.definition.trigger) for one in read}) == 1


def test_limits_that_are_named_after_the_schedule_stay_its_own(around: SubmissionRules) -> None:
    reader = Reader(around)
    fields = {"every": "1h", "run": RUN, "max_outstanding": 1}
    keys = [reader.read(fields, schedule_id).definition.guard for schedule_id in ("a", "b")]
    assert reader.count == 2
    assert keys[0] is not None and keys[1] is not None and keys[0].key != keys[1].key


def test_words_that_are_no_plain_data_or_large_are_read_each_time(around: SubmissionRules) -> None:
    reader = Reader(around)
    large = {"every": "1h", "run": RUN, "payload": {"text": "x" * 20_000}}
    for schedule_id in ("a", "b"):
        reader.read(large, schedule_id)
        with pytest.raises(SchedulerError):
            reader.read({"every": "1h", "run": {"command": [object()]}}, schedule_id)
    assert reader.count == 4
