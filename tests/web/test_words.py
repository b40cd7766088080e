"""What the scripts of the dashboard know of keys, reasons and words: what the service answers, and no copy of it."""

from __future__ import annotations

import re
from typing import get_args

from everwhen.model import meanings
from everwhen.model.fields import GENERAL, ScheduleType
from everwhen.model.job import JobStatus
from everwhen.model.reasons import BRIEF, BRIEF_AHEAD
from everwhen.model.target_kinds import KINDS
from everwhen.web.assets import load_assets

SCRIPTS = {
    path: asset.plain.decode()
    for path, asset in load_assets().items()
    if path.endswith(".js") and not path.startswith("vendor/")
}
SENTENCES = sorted(
    {text for text in (*BRIEF.values(), *BRIEF_AHEAD.values()) if " " in text}
    | {text for name, words in vars(meanings).items() if name.isupper() for text in words.values()}
)


def listed(path: str, name: str) -> set[str]:
    """The words of an array of a script: its items, or the first of each."""
    found = re.search(rf"\b{name}\s*=\s*(\[.*?\])\s*[;,]\s*(?:const|export|\n|$)", SCRIPTS[path], re.DOTALL)
    assert found is not None, (path, name)
    pattern = r'\["([^"]*)",' if found[1].startswith("[[") else r'"([^"]*)"'
    return set(re.findall(pattern, found[1])) - {""}


def test_no_script_has_a_sentence_of_its_own_about_a_reason_or_a_word() -> None:
    assert len(SENTENCES) > 60
    assert [
        (path, text) for path, script in SCRIPTS.items() for text in SENTENCES if f'"{text}"' in script
    ] == []


def test_the_form_knows_keys_that_a_schedule_has_and_no_others() -> None:
    assert listed("schedule_form.js", "PLAIN") <= set(GENERAL)
    assert listed("schedule_form.js", "TRIGGERS") == {"every", "cron", "at", "after"}
    assert listed("schedule_form.js", "REQUESTS") < set(get_args(ScheduleType))
    assert listed("schedule_form.js", "TARGETS") <= set(KINDS)


def test_no_script_lists_the_keys_that_a_copy_takes_over() -> None:
    """A list by hand is out of date with the next key: the service answers what makes a schedule again."""
    shown = {
        *listed("schedule_form.js", "PLAIN"),
        "dst",
        "max_retries",
        "payload",
        "run",
        "every",
        "cron",
        "at",
    }
    others = set(GENERAL) - shown - {"after", "name", "description", "enabled", "queue", "ping", "expect"}
    in_form = {key for key in others if f'"{key}"' in SCRIPTS["schedule_form.js"]}
    assert in_form == set() and len(others) > 10


def test_the_jobs_page_filters_by_every_status_of_a_job() -> None:
    assert listed("pages/jobs.js", "STATES") == set(get_args(JobStatus))
