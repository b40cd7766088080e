"""The columns of rows that are written in batches, in the order in which the flows build them.

They stand by themselves because statements need them, and statements are imported by commands that only read.
"""

from __future__ import annotations

from everwhen.model.schedule import State

# Columns of a definition that its row shows to readers of the table; `source` and `created_at` never change.
SHOWN = (
    "name",
    "group",
    "command",
    "type",
    "spec",
    "timezone",
    "catch_up_policy",
    "quiet_hours_policy_id",
    "payload",
    "target",
    "updated_at",
)
# Columns that a new row sets; the other columns of a state begin with its defaults, which equal the table's.
BEGINS = (*State._fields[1 : State._fields.index("held_slot_at")], "paused_by", "status_reason")
INSERTED = (*BEGINS, *SHOWN, "source", "created_at", "key", "token_id")

# Columns that are known when a job is created, in the order of `job_row`; its status is `queued`.
JOB_INSERTED = (
    "job_id",
    "schedule_row",
    "uid",
    "schedule_id",
    "revision",
    "number",
    "retry",
    "origin",
    "slot_at",
    "due_at",
    "not_before",
    "is_ready",
    "is_counted",
    "is_probe",
    "attempt",
    "payload",
    "queue",
    "guard_key",
    "capacity_key",
    "capacity_limit",
    "breaker_key",
    "line",
    "created_at",
    "ready_at",
)

# Columns of a job that has begun and succeeded when it is created.
JOB_ENDED = (
    *JOB_INSERTED,
    "status",
    "started_at",
    "deadline_at",
    "ended_at",
    "released_at",
    "node",
    "fence",
)
