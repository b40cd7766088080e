"""The bodies of schedules that Pipelit and SYRIS send: how the documentation shows and describes them."""

from __future__ import annotations

WORKFLOW_EXAMPLE = {
    "name": "Daily report",
    "workflow_id": 1,
    "trigger_node_id": "trigger_schedule_abc123",
    "interval_seconds": 86400,
    "total_repeats": 0,
    "max_retries": 3,
    "timeout_seconds": 600,
    "trigger_payload": {"report_type": "daily"},
}
MESSAGE_EXAMPLE = {
    "name": "Good morning",
    "type": "cron",
    "spec": "0 8 * * *",
    "timezone": "Europe/Paris",
    "catch_up_policy": "run_once",
    "payload": {"content": {"text": "Good morning!"}, "source": {"thread_id": "family"}},
}
FOREIGN_EXAMPLES = {"Pipelit": WORKFLOW_EXAMPLE, "SYRIS": MESSAGE_EXAMPLE}
SHAPES = (
    "The general shape (every, cron, at or after, and run), Pipelit's or SYRIS's; each has its own defaults."
)
