"""Definitions and policies go to words and back without loss."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.errors import StoreError
from everwhen.model.policy import BreakerRule, Budget, Capacity, Guard
from everwhen.model.schedule import Definition, QuietHoursPolicy, Target
from everwhen.model.serialize import (
    BEFORE_TIMES,
    BEHIND_TIMES,
    definition_of,
    fields_of,
    policy_of,
    policy_to_json,
    text_of,
    times_in,
)
from everwhen.timetable.civil_time import Zone, zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.trigger import Cron, Every, EveryMonth, InstantKind, Once, OnRequest, RequestKind
from everwhen.timetable.windows import QuietHours, QuietWindow, Window
from tests.decide.builders import a_definition, quiet_hours

TEXT = st.text(max_size=20)
DURATIONS = st.integers(0, 10**15)
INSTANTS = st.integers(0, 2**33)
COUNTS = st.integers(1, 1_000)


def zones() -> st.SearchStrategy[Zone]:
    return st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]).map(zone)


def windows() -> st.SearchStrategy[Window]:
    return st.builds(Window, st.integers(0, 1_439), st.integers(0, 1_440)).filter(lambda w: w.start != w.end)


def triggers() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(Every, st.integers(1, 10**8), TEXT),
        st.just(EveryMonth()),
        st.sampled_from(["0 9 * * 1-5", "*/5 * * * *", "@daily", "0 0 L * *"]).map(
            lambda text: Cron(parse_cron(text))
        ),
        st.builds(Once, INSTANTS, st.sampled_from(get_args(InstantKind)), TEXT),
        st.builds(OnRequest, st.sampled_from(get_args(RequestKind))),
    )


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def definitions() -> st.SearchStrategy[Definition]:
    return st.builds(
        Definition,
        trigger=triggers(),
        zone=zones(),
        target=st.builds(Target, TEXT, TEXT),
        name=TEXT,
        description=TEXT,
        owner=maybe(TEXT),
        group=maybe(TEXT),
        command=maybe(TEXT),
        payload=TEXT,
        queue=TEXT,
        gap=maybe(st.sampled_from(["shift", "skip"])),
        fold=maybe(st.sampled_from(["first", "second", "both"])),
        start_at=maybe(INSTANTS),
        end_at=maybe(INSTANTS),
        first_run=maybe(st.sampled_from(["immediately", "after_interval"])),
        interval_from=st.sampled_from(["slot", "completion"]),
        jitter_ms=DURATIONS,
        only_between=maybe(windows()),
        not_on=st.integers(0, 127),
        outside_window=st.sampled_from(["skip", "defer"]),
        quiet_hours_id=maybe(TEXT),
        misfire_grace=maybe(DURATIONS),
        catch_up=maybe(st.sampled_from(["skip", "run_once", "run_all"])),
        catch_up_limit=COUNTS,
        if_running=st.sampled_from(["skip", "queue", "cancel", "allow"]),
        queue_limit=COUNTS,
        guard=maybe(st.builds(Guard, TEXT, COUNTS)),
        capacity=maybe(st.builds(Capacity, TEXT, COUNTS)),
        breaker=maybe(st.builds(BreakerRule, TEXT, COUNTS, DURATIONS)),
        budgets=st.lists(st.builds(Budget, TEXT, maybe(COUNTS), maybe(COUNTS)), max_size=3).map(tuple),
        total_repeats=st.integers(0, 100),
        max_retries=maybe(st.integers(0, 100)),
        retry_delay=maybe(DURATIONS),
        on_exhausted=st.sampled_from(["continue", "stop"]),
        on_lost=st.sampled_from(["rerun", "fail"]),
        timeout=maybe(DURATIONS),
    )


@given(definitions())
def test_a_definition_survives_its_words_as_json(definition: Definition) -> None:
    assert definition_of(json.loads(json.dumps(fields_of(definition)))) == definition


@given(definitions())
def test_the_same_definition_has_the_same_json(definition: Definition) -> None:
    assert fields_of(definition_of(fields_of(definition))) == fields_of(definition)


@given(definitions())
def test_the_times_of_a_definition_come_first_and_can_be_cut_off(definition: Definition) -> None:
    text = text_of(definition)
    assert text.startswith(BEFORE_TIMES)
    cut = text[: text.index(BEHIND_TIMES)] + "}"
    times = times_in(cut)
    assert times is times_in(text)
    for name in "trigger zone gap fold start_at end_at jitter_ms not_on outside_window only_between".split():
        assert getattr(times, name) == getattr(definition, name), name
    assert (times.quiet_hours_id, times.is_chain) == (definition.quiet_hours_id, definition.is_chain)
    assert times_in(text_of(replace(definition, name="another", target=Target("http"), timeout=7))) is times


@given(definitions())
def test_the_times_of_a_definition_that_release_0_2_wrote_are_found_too(definition: Definition) -> None:
    fields = fields_of(definition)
    first = ("trigger", "timezone", "target")
    older = {name: fields[name] for name in (*first, *(name for name in fields if name not in first))}
    text = json.dumps(older, separators=(",", ":"))
    assert not text.startswith(BEFORE_TIMES)
    assert times_in(text) is times_in(text_of(definition))


def test_only_what_differs_from_the_default_is_written() -> None:
    assert fields_of(a_definition(every="1h")) == {
        "trigger": {"every": "1h", "seconds": 3_600},
        "timezone": "UTC",
        "target": ["command", "{}"],
    }


def test_no_timeout_differs_from_the_default_and_is_written() -> None:
    assert fields_of(a_definition(every="1h", timeout=None))["timeout"] is None


@pytest.mark.parametrize(
    ("stored", "read"), [({}, "continue"), ({"max_retries": 0}, "stop"), ({"max_retries": 3}, "stop")]
)
def test_a_revision_from_before_on_exhausted_stops_when_it_has_max_retries(
    stored: dict[str, Any], read: str
) -> None:
    fields = {**fields_of(a_definition(every="1h")), **stored}
    assert definition_of(fields).on_exhausted == read


def test_a_trigger_of_a_newer_version_is_refused_with_advice() -> None:
    fields = {**fields_of(a_definition(every="1h")), "trigger": {"moon": "full"}}
    with pytest.raises(StoreError, match="newer everwhen"):
        definition_of(fields)


@given(
    st.builds(
        QuietHoursPolicy,
        st.just("nights"),
        TEXT,
        st.builds(
            QuietHours,
            zones(),
            st.lists(st.builds(QuietWindow, windows(), st.integers(1, 127)), max_size=3).map(tuple),
            st.lists(st.tuples(st.integers(0, 10**5), st.integers(0, 10**5)), max_size=3).map(tuple),
        ),
        st.sampled_from(["skip", "defer"]),
    )
)
def test_a_policy_survives_its_words_as_json(policy: QuietHoursPolicy) -> None:
    assert policy_of(policy.policy_id, json.loads(json.dumps(policy_to_json(policy)))) == policy


def test_a_policy_is_known_by_its_id() -> None:
    assert policy_of("other", policy_to_json(quiet_hours("22:00-07:00"))).policy_id == "other"
