"""The numbered migrations of SQLite. Instants are integer microseconds, UTC."""

from __future__ import annotations

from everwhen.store.schema.migrate import Migration

_LEDGER = """
CREATE TABLE schedules (
    row_id INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    schedule_id TEXT NOT NULL UNIQUE,
    owner TEXT,
    revision INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'paused', 'invalid', 'done', 'dead')),
    anchor_at INTEGER,
    next_slot_at INTEGER,
    next_run_at INTEGER,
    held_slot_at INTEGER,
    held_due_at INTEGER,
    held_reason TEXT,
    held_since INTEGER,
    held_key TEXT,
    release_at INTEGER,
    fire_count INTEGER NOT NULL DEFAULT 0,
    outstanding INTEGER NOT NULL DEFAULT 0,
    running_jobs INTEGER NOT NULL DEFAULT 0,
    waiting INTEGER NOT NULL DEFAULT 0,
    retries_waiting INTEGER NOT NULL DEFAULT 0,
    current_repeat INTEGER NOT NULL DEFAULT 0,
    current_retry INTEGER NOT NULL DEFAULT 0,
    run_count INTEGER NOT NULL DEFAULT 0,
    error_count INTEGER NOT NULL DEFAULT 0,
    last_slot_at INTEGER,
    last_fired_at INTEGER,
    last_run_at INTEGER,
    last_completed_at INTEGER,
    last_success_at INTEGER,
    last_success_job_id TEXT,
    last_error TEXT,
    skip_reason TEXT,
    skip_held TEXT,
    skip_first_at INTEGER,
    skip_last_at INTEGER,
    skip_count INTEGER NOT NULL DEFAULT 0,
    paused_by TEXT,
    status_reason TEXT,
    resume_at INTEGER,
    name TEXT NOT NULL DEFAULT '',
    "group" TEXT,
    command TEXT,
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    spec TEXT NOT NULL,
    timezone TEXT NOT NULL,
    catch_up_policy TEXT NOT NULL,
    quiet_hours_policy_id TEXT,
    payload TEXT NOT NULL DEFAULT '{}',
    target TEXT NOT NULL DEFAULT '',
    key TEXT,
    token_id TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    enabled INTEGER GENERATED ALWAYS AS (status = 'active') VIRTUAL
);
CREATE INDEX idx_schedules_next_run ON schedules (next_run_at) WHERE enabled;
CREATE INDEX idx_schedules_release ON schedules (release_at) WHERE release_at IS NOT NULL;
CREATE INDEX idx_schedules_held ON schedules (held_key, held_due_at) WHERE held_key IS NOT NULL;
CREATE INDEX idx_schedules_resume ON schedules (resume_at) WHERE resume_at IS NOT NULL;
CREATE UNIQUE INDEX idx_schedules_key ON schedules (key) WHERE key IS NOT NULL;
CREATE INDEX idx_schedules_token ON schedules (token_id) WHERE token_id IS NOT NULL;
CREATE INDEX idx_schedules_owner ON schedules (owner) WHERE owner IS NOT NULL;
CREATE INDEX idx_schedules_group ON schedules ("group") WHERE "group" IS NOT NULL;

CREATE TABLE schedule_revisions (
    uid TEXT NOT NULL,
    revision INTEGER NOT NULL,
    schedule_id TEXT NOT NULL,
    in_force_at INTEGER NOT NULL,
    anchor_at INTEGER,
    words TEXT NOT NULL,
    PRIMARY KEY (uid, revision)
) WITHOUT ROWID;

CREATE TABLE jobs (
    row_id INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL UNIQUE,
    schedule_row INTEGER,
    uid TEXT NOT NULL,
    schedule_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    number INTEGER NOT NULL,
    retry INTEGER NOT NULL,
    origin TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'queued',
    slot_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    not_before INTEGER,
    is_ready INTEGER NOT NULL,
    is_counted INTEGER NOT NULL,
    is_probe INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,
    rescues INTEGER NOT NULL DEFAULT 0,
    payload TEXT,
    queue TEXT NOT NULL,
    guard_key TEXT,
    capacity_key TEXT,
    capacity_limit INTEGER,
    breaker_key TEXT,
    line TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    deadline_at INTEGER,
    ended_at INTEGER,
    released_at INTEGER,
    outcome_token TEXT,
    node TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    error TEXT,
    result TEXT,
    ready_at INTEGER,
    handed_over_at INTEGER,
    deliveries INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX idx_jobs_slot ON jobs (slot_at, uid) WHERE origin IN ('schedule', 'catch_up');
CREATE UNIQUE INDEX idx_jobs_backfill ON jobs (slot_at, uid) WHERE origin = 'backfill';
CREATE INDEX idx_jobs_beside ON jobs (slot_at) WHERE origin IN ('retry', 'manual', 'webhook', 'chat');
CREATE INDEX idx_jobs_ready ON jobs (ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX idx_jobs_outstanding ON jobs (uid, slot_at) WHERE status IN ('queued', 'running');
CREATE INDEX idx_jobs_unsuccessful ON jobs (status, row_id)
    WHERE status IN ('failed', 'timed_out', 'cancelled', 'lost');
CREATE INDEX idx_jobs_unreleased ON jobs (node) WHERE node IS NOT NULL AND released_at IS NULL;
CREATE INDEX idx_jobs_handed_over ON jobs (ready_at) WHERE handed_over_at IS NOT NULL;
CREATE INDEX idx_jobs_handed_key ON jobs (capacity_key)
    WHERE handed_over_at IS NOT NULL AND capacity_key IS NOT NULL;
CREATE VIEW outbox AS
    SELECT job_id, schedule_id, queue, deliveries AS delivery, handed_over_at FROM jobs
    WHERE handed_over_at IS NOT NULL;

CREATE TABLE job_output (
    job_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    stream TEXT NOT NULL,
    position INTEGER NOT NULL,
    at INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (job_id, attempt, stream, position)
) WITHOUT ROWID;

CREATE TABLE limits (
    key TEXT PRIMARY KEY,
    outstanding INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    hour INTEGER NOT NULL DEFAULT 0,
    hour_fires INTEGER NOT NULL DEFAULT 0,
    day INTEGER NOT NULL DEFAULT 0,
    day_fires INTEGER NOT NULL DEFAULT 0,
    widest INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE circuit_breakers (
    key TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    failure_count INTEGER NOT NULL DEFAULT 0,
    opened_at INTEGER,
    probe_job_id TEXT
) WITHOUT ROWID;

CREATE TABLE circuit_breaker_transitions (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state TEXT NOT NULL,
    reason TEXT NOT NULL,
    failure_count INTEGER NOT NULL,
    job_id TEXT,
    at INTEGER NOT NULL
);
CREATE INDEX idx_transitions_key ON circuit_breaker_transitions (key, id);

CREATE TABLE audit_events (
    id INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    schedule_id TEXT,
    uid TEXT,
    owner TEXT,
    slot_at INTEGER,
    reason TEXT,
    slot_count INTEGER NOT NULL DEFAULT 1,
    job_id TEXT,
    actor TEXT,
    detail TEXT NOT NULL DEFAULT '{}',
    trace_id TEXT
);
CREATE INDEX idx_audit_schedule ON audit_events (uid, slot_at);
CREATE INDEX idx_audit_owner ON audit_events (owner) WHERE owner IS NOT NULL;

CREATE TABLE plugin_state (
    plugin TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    schedule_id TEXT NOT NULL,
    uid TEXT NOT NULL,
    owner TEXT,
    job_id TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX idx_messages_at ON messages (at);

CREATE TABLE subscriptions (
    subscriber TEXT PRIMARY KEY,
    cursor INTEGER NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    last_error TEXT,
    node TEXT,
    held_until INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE quiet_hours_policies (
    policy_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    source TEXT NOT NULL DEFAULT 'api',
    words TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);

CREATE TABLE config_revisions (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,
    digest TEXT NOT NULL,
    actor TEXT,
    places TEXT
);

CREATE TABLE nodes (
    node TEXT PRIMARY KEY,
    version TEXT NOT NULL,
    is_scheduler INTEGER NOT NULL,
    is_worker INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    clock_skew INTEGER NOT NULL DEFAULT 0,
    stopped_at INTEGER,
    lost_at INTEGER
);

CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    owner TEXT,
    limits TEXT NOT NULL DEFAULT '{}',
    created_at INTEGER NOT NULL,
    created_by TEXT,
    expires_at INTEGER,
    revoked_at INTEGER
) WITHOUT ROWID;

CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    token_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE idempotency_keys (
    token_id TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (token_id, key)
) WITHOUT ROWID;
CREATE INDEX idx_idempotency_age ON idempotency_keys (created_at);

CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE VIEW schedule_entries AS
SELECT
    "group" AS plugin,
    CASE WHEN instr(schedule_id, '.') > 0 THEN substr(schedule_id, instr(schedule_id, '.') + 1)
         ELSE schedule_id END AS schedule_id,
    command,
    CASE status WHEN 'paused' THEN 'paused_manual' WHEN 'invalid' THEN 'paused_invalid'
                WHEN 'active' THEN 'active' ELSE 'exhausted' END AS status,
    last_fired_at,
    last_success_at,
    last_success_job_id,
    next_run_at
FROM schedules;
"""

# `nodes.migration` is the newest one that the process knows, `schedule_revisions.cause` why a revision was written:
# processes of the previous release leave both empty. A restore adds the same number to `fire_count`, which every
# release uses as the number of the last job, and to `numbers_skipped`: so a process of the previous release reuses no
# number either.
_SECOND = """
ALTER TABLE schedules ADD COLUMN failed_slots INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN numbers_skipped INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN migration INTEGER;
ALTER TABLE config_revisions ADD COLUMN sections TEXT;
ALTER TABLE schedule_revisions ADD COLUMN cause TEXT;
CREATE INDEX idx_revisions_before ON schedule_revisions (uid) WHERE cause IS NULL;

CREATE TABLE event_cursors (
    name TEXT PRIMARY KEY,
    event_id INTEGER NOT NULL,
    job_row INTEGER NOT NULL,
    open_jobs TEXT,
    failing TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    last_error TEXT,
    node TEXT,
    held_until INTEGER,
    fence INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
"""

MIGRATIONS = (
    Migration(number=1, name="the ledger", before=_LEDGER),
    Migration(number=2, name="release 0.2", before=_SECOND),
)
