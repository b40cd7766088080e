"""The numbers that users are promised, each written down a second time.

Tests elsewhere show that a bound is kept, whatever it is; here it is what the rules and the guide say it is. Whoever
changes one changes a promise.
"""

from __future__ import annotations

import pytest

from everwhen.api import calls, json_reader, request_guard
from everwhen.api.routes import hooks
from everwhen.config.schema import API, RETENTION, SERVICE
from everwhen.config.settings import Settings, settings_of
from everwhen.decide import catch_up, draft
from everwhen.engine import job_runner, lease, running, service
from everwhen.model import payload, policy, token, values
from everwhen.model.instants import DAY, MINUTE, SECOND
from everwhen.model.schedule import Definition
from everwhen.operations import jobs
from everwhen.operations.access import COUNTED
from everwhen.targets import command, guardian, process
from everwhen.timetable import cron, interval, windows
from everwhen.work_sources import command as source_command

KIB, MIB = 1 << 10, 1 << 20
DEFAULTS = {name: Definition.__dataclass_fields__[name].default for name in ("catch_up_limit", "queue_limit")}


@pytest.mark.parametrize(
    ("rule", "found", "promised"),
    [
        ("T2, the longest duration", interval.LONGEST, 3_650 * 86_400),
        ("T5, years in which cron has to match", cron.HORIZON_YEARS, 50),
        ("E3, how far an opening is looked for", windows.HORIZON, 400 * 86_400),
        ("C1, the least grace", policy.LEAST_GRACE, 2 * SECOND),
        ("C1, the most grace", policy.MOST_GRACE, 5 * MINUTE),
        ("C4, catch_up_limit", DEFAULTS["catch_up_limit"], 100),
        ("C8, events of one window", catch_up.EVENTS_PER_WINDOW, 100),
        ("O1, queue_limit", DEFAULTS["queue_limit"], 1_000),
        ("R3, how far retries back off", policy.BACKOFF_CAP, 10),
        ("R4, the exit code that is final", command.FINAL_EXIT, 78),
        ("R8, rescues of one job", policy.MOST_RESCUES, 3),
        ("R8, the lease", lease.LEASE, 30.0),
        ("R8, heartbeats in a lease", lease.BEATS, 3),
        ("R8, from SIGTERM to SIGKILL where a node is frozen", lease.LONGEST_MARGIN, 5.0),
        ("R9, from SIGTERM to SIGKILL", process.GRACE, 5.0),
        ("R9, from SIGTERM to SIGKILL where a node was killed", guardian.GRACE, 5.0),
        ("X3, slots of one backfill", jobs.MOST_BACKFILLED, 1_000),
        ("L5, skips that are gathered", draft.GATHERED_AT_MOST, 1_000),
        ("G3, overdue", service.OVERDUE, 60 * SECOND),
        ("output, the first of each stream", running.HEAD, 64 * KIB),
        ("output, the last of each stream", running.TAIL, 192 * KIB),
        ("output, the first in memory", process.HEAD, 64 * KIB),
        ("output, the last in memory", process.TAIL, 192 * KIB),
        ("output, read of one stream", process.READ_LIMIT, 10 * MIB),
        ("output, read of a work source", source_command.LARGEST_ANSWER, 10 * MIB),
        ("REST, an Idempotency-Key", token.ANSWERS_KEPT, DAY),
        ("REST, a payload", payload.LARGEST_PAYLOAD, 64 * KIB),
        ("files, a payload", values.MOST_PAYLOAD, 64 * KIB),
        ("REST, a schedule", json_reader.MOST_SCHEDULE, 256 * KIB),
        ("REST, a batch of lines", request_guard.MOST_LINES, 16 * MIB),
        ("REST, the age of a signature", hooks.GOOD_FOR, 5 * MINUTE),
        ("REST, items of a page", calls.DEFAULT_LIMIT, 50),
        ("REST, items of a page at most", calls.MOST_LIMIT, 500),
        ("REST, an exact total", COUNTED, 10_000),
    ],
)
def test_a_bound_is_the_number_that_is_promised(rule: str, found: object, promised: object) -> None:
    assert found == promised, rule


def test_settings_that_a_file_leaves_out_are_what_the_contract_says() -> None:
    said = {key: one.default for key, one in SERVICE.keys.items() if one.default is not None}
    assert said == {
        "name": "everwhen",
        "database": "sqlite:///everwhen.db",
        "timezone": "UTC",
        "check_interval": "1s",
        "misfire_grace": "auto",
        "catch_up_stagger": "0s",
        "max_workers": 8,
        "shutdown_timeout": "30s",
        "lease": "30s",
        "when_cut_off": "continue",
        "dispatch": "local",
        "approval_ttl": "7d",
    }
    ages = {"jobs": "30d", "audit": "90d", "breaker_transitions": "90d", "messages": "30d", "output": "7d"}
    ages |= {"alerts": "90d", "deliveries": "30d"}
    assert {age: one.default for age, one in RETENTION.keys.items()} == ages
    assert settings_of({**said, "retention": ages}, local_zone=lambda: "UTC") == Settings()
    assert (API.keys["port"].default, API.keys["max_payload"].default) == (8750, "64KiB")
    assert API.keys["max_body"].default == "1MiB"


def test_whoever_abandons_what_runs_waits_for_the_sigkill() -> None:
    assert min(service.ABANDON, job_runner.ABANDON) > process.GRACE
