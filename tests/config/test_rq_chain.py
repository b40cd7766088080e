"""With `dispatch: rq-chain` only plain intervals run: anything else is refused when it is loaded, with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everwhen.compat.body_shapes import BODY_SHAPES
from everwhen.config.submission import SubmissionRules, read_change, read_submission, rules_of
from everwhen.errors import SubmissionError
from tests.config.reading import host, mistakes, read

SERVICE = "service: {dispatch: rq-chain}\n"
RUN = {"command": ["ls"]}
ELSE = 'with dispatch "local", "rq" or "celery" it can'
NOT_COUNTED = (
    'an interval counted from completion cannot run with dispatch "rq-chain": the next run is put into the queue '
    f"before this one begins; {ELSE}, and so it can with interval_from: slot"
)

REFUSED = [
    ({"cron": "0 2 * * *"}, "cron", "a cron expression"),
    ({"at": "2026-12-24T18:00:00Z"}, "at", 'a one-shot ("at")'),
    ({"after": "5m"}, "after", 'a one-shot ("after")'),
    ({"every": "monthly"}, "every", '"monthly"'),
]


@pytest.fixture
def around(tmp_path: Path) -> SubmissionRules:
    return rules_of(read(tmp_path, SERVICE), host(), [], bodies=BODY_SHAPES)


def problems(fields: dict[str, Any], around: SubmissionRules) -> list[tuple[str, str]]:
    with pytest.raises(SubmissionError) as caught:
        read_submission({"run": RUN, **fields}, "a", around)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    "more", [{}, {"if_running": "queue"}, {"jitter": "5s", "only_between": "08:00-18:00"}]
)
def test_an_interval_is_let_in_with_everything_that_goes_with_it(
    around: SubmissionRules, more: dict[str, Any]
) -> None:
    assert read_submission({"every": "60s", "run": RUN, **more}, "a", around).schedule_id == "a"


@pytest.mark.parametrize(("trigger", "key", "name"), REFUSED)
def test_other_triggers_are_refused_by_the_word_that_says_them(
    around: SubmissionRules, trigger: dict[str, Any], key: str, name: str
) -> None:
    said = f'{name} cannot run with dispatch "rq-chain", which knows intervals only; {ELSE}'
    assert problems(trigger, around) == [(key, said)]
    assert read_submission({"run": RUN, **trigger}, "a", replace(around, dispatch="local")).schedule_id == "a"


@pytest.mark.parametrize("overlap", ["allow", "cancel"])
def test_overlaps_other_than_skip_and_queue_are_refused(around: SubmissionRules, overlap: str) -> None:
    said = f'"{overlap}" cannot be had with dispatch "rq-chain", only "skip" or "queue"; {ELSE}'
    assert problems({"every": "60s", "if_running": overlap}, around) == [("if_running", said)]


def test_a_body_with_seconds_is_accepted_and_a_cron_spec_is_refused_by_its_key(
    around: SubmissionRules,
) -> None:
    assert read_submission({"interval_seconds": 60, "run": RUN}, "a", around).definition.retry_delay
    ((path, said),) = problems({"type": "cron", "spec": "0 2 * * *"}, around)
    assert path == "spec" and said.startswith("a cron expression cannot run")


def test_an_edit_is_judged_alike(around: SubmissionRules) -> None:
    current = read_submission({"every": "60s", "run": RUN}, "a", around).definition
    assert read_change({"every": "90s"}, "a", current, around).schedule_id == "a"
    with pytest.raises(SubmissionError, match="a cron expression cannot run"):
        read_change({"cron": "0 2 * * *"}, "a", current, around)


def test_a_file_is_refused_with_every_fault_and_its_line(tmp_path: Path) -> None:
    text = f"""{SERVICE}schedules:
  - {{id: fine, every: 5m, run: {{command: [ls]}}}}
  - id: nightly
    cron: "0 2 * * *"
    if_running: allow
    run: {{command: [ls]}}
agents:
  bot:
    command: [x]
    schedules:
      check: {{type: interval, interval: 5m}}
      grid: {{type: interval, interval: 5m, interval_from: slot}}
      ask: {{type: chat}}
"""
    only = f'cannot run with dispatch "rq-chain", which knows intervals only; {ELSE}'
    overlap = f'"allow" cannot be had with dispatch "rq-chain", only "skip" or "queue"; {ELSE}'
    assert mistakes(tmp_path, text) == [
        f"everwhen.yaml:5: schedules[1].cron: a cron expression {only}",
        f"everwhen.yaml:6: schedules[1].if_running: {overlap}",
        f"everwhen.yaml:12: agents.bot.schedules.check: {NOT_COUNTED}",
        f'everwhen.yaml:14: agents.bot.schedules.ask.type: type "chat" {only}',
    ]
    assert mistakes(tmp_path, text.replace("rq-chain", "local")) == []


def test_the_environment_can_ask_for_it_too(tmp_path: Path) -> None:
    text = 'schedules: [{id: nightly, cron: "0 2 * * *", run: {command: [ls]}}]'
    assert mistakes(tmp_path, text) == []
    (said,) = mistakes(tmp_path, text, {"EVERWHEN_DISPATCH": "rq-chain"})
    assert said.startswith("everwhen.yaml:1: schedules[0].cron: a cron expression cannot run")
