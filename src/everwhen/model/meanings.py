"""What the words mean that keys of the configuration may be: one sentence for each.

The JSON Schema, OpenAPI and the reference show them. `tests/docs/test_reference.py` compares them with the words that
are taken.
"""

from __future__ import annotations

from collections.abc import Mapping

Meanings = Mapping[str, str]

GAP: Meanings = {
    "shift": "the slot fires when the clock has jumped, at the first instant after the gap",
    "skip": "the slot does not exist on that day",
}
FOLD: Meanings = {
    "first": "the slot fires the first time that the clock shows this time",
    "second": "the slot fires the second time",
    "both": "the slot fires both times",
}
FIRST_RUN: Meanings = {
    "immediately": "the first slot is the instant of creation",
    "after_interval": "the first slot is one interval later",
}
INTERVAL_FROM: Meanings = {
    "slot": "slots lie on a fixed grid, however long a run takes",
    "completion": "the next slot is one interval after the end of the last run",
}
WHEN_CLOSED: Meanings = {
    "skip": "the slot is skipped, and the reason recorded",
    "defer": "the newest slot waits until the closed time ends, unless a regular slot is due by then",
}
CATCH_UP: Meanings = {
    "skip": "missed slots are recorded as missed, and the schedule continues with the next one",
    "run_once": "one job replaces all missed slots",
    "run_all": "each missed slot gets a job, oldest first, at most catch_up_limit: the newest ones",
    "run_all_capped": "the same as run_all",
}
IF_RUNNING: Meanings = {
    "skip": "the slot is skipped",
    "queue": "its job waits until the earlier ones have ended, at most queue_limit of them",
    "cancel": "the earlier jobs are cancelled, and this one runs",
    "allow": "its job runs beside the others",
}
ON_EXHAUSTED: Meanings = {
    "continue": "the slot is over, and the schedule continues with its next one",
    "stop": "the schedule is dead after more than max_retries failures in a row, until it is revived",
}
ON_LOST: Meanings = {
    "rerun": "another node runs the job again, at most 3 times",
    "fail": "the job ends as lost, which is a failure",
}
SIGNATURE: Meanings = {
    "everwhen": "the header Everwhen-Signature, with the time of the request",
    "github": "the header X-Hub-Signature-256 of GitHub",
}
PING_FORMAT: Meanings = {
    "healthchecks": "the URLs of Healthchecks and of services with its protocol",
    "sentry": "the check-ins of Sentry",
}
WHEN_EMPTY: Meanings = {
    "run": "the agent runs without an item",
    "skip": "the run ends at once, as a success",
}
ON_REACHED: Meanings = {
    "skip": "slots are skipped until the window is over",
    "pause": "a schedule is paused with its first skipped slot, until the window is over",
    "alert": "nothing is refused; an alert is sent",
}
APPROVAL: Meanings = {
    "none": "nothing waits",
    "recurring": "a schedule that repeats waits; one that runs once does not",
    "required": "every schedule waits",
}
WHEN_CUT_OFF: Meanings = {
    "continue": "its jobs continue, because the outage may affect all nodes",
    "stop": "its jobs are ended when the lease is over",
}
DISPATCH: Meanings = {
    "local": "the workers of this service",
    "rq": "workers of RQ; a scheduler of everwhen decides when",
    "rq-chain": "workers of RQ alone, without a scheduler",
    "celery": "workers of Celery; a scheduler of everwhen decides when",
}
TRIGGER_TYPE: Meanings = {
    "interval": "a fixed time between two runs",
    "cron": "a cron expression",
    "webhook": "a signed request of another program",
    "chat": "a message to the agent",
}
LOG_FORMAT: Meanings = {"text": "lines for people", "json": "a JSON object per line"}
BODY_FORMAT: Meanings = {
    "auto": "that of Slack or Discord where the host is theirs, else generic",
    "generic": "the alert as JSON",
    "slack": "the JSON that Slack's webhooks take",
    "discord": "the JSON that Discord's webhooks take",
}
