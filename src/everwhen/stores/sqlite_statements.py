"""The SQL statements of SQLite, by name. A comment names the index that serves each."""

from __future__ import annotations

from functools import cache

from everwhen.model.counters import ScheduleCounters
from everwhen.model.events import Event
from everwhen.model.job import EXTERNAL, Job
from everwhen.model.node import Node
from everwhen.model.schedule import State
from everwhen.model.token import TOKEN_COLUMNS
from everwhen.ports.messages import Message, Subscription
from everwhen.stores.columns import INSERTED, JOB_ENDED, JOB_INSERTED
from everwhen.stores.migrations.sqlite import MIGRATIONS
from everwhen.stores.sqlite_insert import SparseInsert

STATE = ", ".join(State._fields)
JOB = ", ".join(Job._fields)

# Many rows by their primary key, as one JSON list: one statement for all costs half of one for each, and lets other
# threads run meanwhile.
ROWS = "row_id IN (SELECT value FROM json_each(?))"

# idx_schedules_next_run: a range from the front of the partial index, whatever the number of schedules.
DUE_LATELY = f"""
SELECT {STATE} FROM schedules WHERE enabled AND next_run_at > :floor AND next_run_at <= :now
ORDER BY next_run_at LIMIT :limit"""
DUE_BEHIND = f"""
SELECT {STATE} FROM schedules WHERE enabled AND next_run_at <= :floor ORDER BY next_run_at LIMIT :limit"""

# idx_schedules_release
RELEASED = f"""
SELECT {STATE} FROM schedules
WHERE release_at IS NOT NULL AND release_at <= :now AND enabled AND (next_run_at IS NULL OR next_run_at > :now)
ORDER BY release_at, held_due_at LIMIT :limit"""

# idx_schedules_next_run and idx_schedules_release, each from its front.
STATES_UNTIL = f"""
SELECT {STATE} FROM schedules WHERE row_id IN (
    SELECT row_id FROM (SELECT row_id FROM schedules WHERE enabled AND next_run_at <= :until
        ORDER BY next_run_at LIMIT :limit)
    UNION SELECT row_id FROM (SELECT row_id FROM schedules WHERE release_at IS NOT NULL AND release_at <= :until
        AND enabled ORDER BY release_at LIMIT :limit))"""

# idx_schedules_next_run, idx_schedules_release: one step into each.
_IS_PAUSED = "EXISTS (SELECT 1 FROM settings WHERE key = 'system_paused' AND value <> '')"
NEXT_DUE = f"""
SELECT min(at) FROM (
    SELECT min(next_run_at) AS at FROM schedules WHERE enabled
    UNION ALL SELECT min(release_at) FROM schedules WHERE release_at IS NOT NULL) WHERE NOT {_IS_PAUSED}"""
# idx_schedules_resume, from its front.
NEXT_RESUME = "SELECT min(resume_at) FROM schedules WHERE resume_at IS NOT NULL AND status = 'paused'"


@cache
def update_of(columns: tuple[str, ...]) -> str:
    """Return the update of some columns of a schedule. The primary key of schedules."""
    return f"UPDATE schedules SET {', '.join(f'{quoted(name)} = ?' for name in columns)} WHERE row_id = ?"


def quoted(column: str) -> str:
    return f'"{column}"' if column == "group" else column


_EMPTY_OF_JOB = (
    "not_before",
    "is_ready",
    "is_counted",
    "is_probe",
    "payload",
    "guard_key",
    "capacity_key",
    "capacity_limit",
    "breaker_key",
    "line",
    "ready_at",
)
INSERT_JOB = SparseInsert("jobs", JOB_INSERTED, sparse=_EMPTY_OF_JOB)
INSERT_ENDED_JOB = SparseInsert("jobs", JOB_ENDED, sparse=(*_EMPTY_OF_JOB, "deadline_at"))
INSERT_EVENT = SparseInsert(
    "audit_events", Event._fields, sparse=("owner", "slot_at", "reason", "job_id", "actor", "trace_id")
)
INSERT_SCHEDULE = SparseInsert(
    "schedules",
    INSERTED,
    sparse=(
        "owner",
        "paused_by",
        "status_reason",
        "group",
        "command",
        "quiet_hours_policy_id",
        "key",
        "token_id",
    ),
)

PUT_LIMIT = """
INSERT INTO limits (key, outstanding, running, hour, hour_fires, day, day_fires, widest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET outstanding = excluded.outstanding, running = excluded.running,
    hour = excluded.hour, hour_fires = excluded.hour_fires, day = excluded.day, day_fires = excluded.day_fires,
    widest = excluded.widest"""

PUT_BREAKER = """
INSERT INTO circuit_breakers (key, state, failure_count, opened_at, probe_job_id) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET state = excluded.state, failure_count = excluded.failure_count,
    opened_at = excluded.opened_at, probe_job_id = excluded.probe_job_id"""

INSERT_TRANSITION = """
INSERT INTO circuit_breaker_transitions (key, from_state, to_state, reason, failure_count, job_id, at)
VALUES (?, ?, ?, ?, ?, ?, ?)"""

# The primary key of jobs. A running job that is cancelled keeps its node until the worker releases it.
CANCEL_JOB = """
UPDATE jobs SET status = 'cancelled', ended_at = :now, ready_at = NULL, reason = :reason,
    cancel_requested = (status = 'running'),
    released_at = CASE status WHEN 'running' THEN NULL ELSE :now END
WHERE row_id = :row_id AND status IN ('queued', 'running')"""

# idx_jobs_ready; the primary key of limits and the unique key on uid, one step into each. Jobs that cannot start now
# are excluded here, so that a thousand jobs that wait for capacity do not hide the one behind them.
_CAN_START = """
    (capacity_limit IS NULL OR capacity_limit > coalesce((SELECT running FROM limits WHERE key = capacity_key), 0))
    AND (line IS NULL OR line <> 'own'
        OR coalesce((SELECT running_jobs FROM schedules WHERE schedules.uid = jobs.uid), 0) = 0)"""
# The queues of one program contain an @; only workers that name such a queue take its jobs (model/bound_queue.py).
_IS_OURS = "(:queues IS NULL AND instr(queue, '@') = 0 OR queue IN (SELECT value FROM json_each(:queues)))"
READY_JOBS = f"""
SELECT {JOB} FROM jobs WHERE ready_at IS NOT NULL AND ready_at <= :now
    AND {_IS_OURS} AND {_CAN_START}
ORDER BY ready_at, row_id LIMIT :limit"""
# idx_jobs_outstanding
READY_OF_SCHEDULE = f"""
SELECT {JOB} FROM jobs WHERE uid = :uid AND status IN ('queued', 'running') AND ready_at <= :now AND line = 'own'
    AND {_IS_OURS}"""
NEXT_READY = f"""
SELECT (SELECT ready_at FROM jobs WHERE ready_at IS NOT NULL AND NOT {_IS_PAUSED}
    AND {_IS_OURS} AND {_CAN_START}
    ORDER BY ready_at LIMIT 1)"""

# -- the outbox --

# idx_jobs_ready, as above; idx_jobs_handed_key and idx_jobs_outstanding: jobs that are handed over count as running.
_IS_SENT = "sent.handed_over_at IS NOT NULL AND sent.status = 'queued'"
_CAN_GO = f"""
    handed_over_at IS NULL AND instr(queue, '@') = 0 AND {_CAN_START}
    AND (capacity_limit IS NULL OR capacity_limit >
        coalesce((SELECT running FROM limits WHERE key = jobs.capacity_key), 0)
        + (SELECT count(*) FROM jobs sent WHERE sent.capacity_key IS NOT NULL AND sent.capacity_key = jobs.capacity_key
            AND {_IS_SENT}))
    AND (line IS NULL OR line <> 'own' OR NOT EXISTS (
        SELECT 1 FROM jobs sent WHERE sent.uid = jobs.uid AND sent.status IN ('queued', 'running') AND sent.line = 'own'
            AND {_IS_SENT}))"""
DELIVERABLE_JOBS = f"""
SELECT {JOB} FROM jobs WHERE ready_at IS NOT NULL AND ready_at <= :now AND {_CAN_GO}
ORDER BY ready_at, row_id LIMIT :limit"""
NEXT_DELIVERY = f"""
SELECT min(next_at) FROM (
    SELECT (SELECT ready_at FROM jobs WHERE ready_at IS NOT NULL AND NOT {_IS_PAUSED} AND {_CAN_GO}
        ORDER BY ready_at LIMIT 1) AS next_at
    UNION ALL SELECT min(ready_at) FROM jobs WHERE handed_over_at IS NOT NULL)"""
# idx_jobs_handed_key, idx_jobs_outstanding
SENT_KEYS = """
SELECT capacity_key FROM jobs WHERE handed_over_at IS NOT NULL AND capacity_key IS NOT NULL AND status = 'queued'
    AND capacity_key IN"""
SENT_LINES = """
SELECT DISTINCT uid FROM jobs WHERE status IN ('queued', 'running') AND status = 'queued' AND line = 'own'
    AND handed_over_at IS NOT NULL AND uid IN"""
# The unique key on job_id.
SENT_NUMBERS = "SELECT job_id, deliveries FROM jobs WHERE handed_over_at IS NOT NULL AND job_id IN"
DELIVERY = "job_id, deliveries, queue, handed_over_at"
DELIVERY_OF = f"""
SELECT {DELIVERY} FROM jobs WHERE job_id = ? AND handed_over_at IS NOT NULL AND status = 'queued'"""
# idx_jobs_handed_over: jobs that were not claimed in time, and jobs that are no longer ready, so need no message.
OVERDUE_DELIVERIES = f"""
SELECT {DELIVERY} FROM jobs WHERE handed_over_at IS NOT NULL AND ready_at <= :now AND status = 'queued'
ORDER BY ready_at LIMIT :limit"""
NEEDLESS_DELIVERIES = f"""
SELECT {DELIVERY} FROM jobs WHERE handed_over_at IS NOT NULL AND ready_at IS NULL AND status <> 'running'
LIMIT :limit"""
SEND_JOBS = f"""
UPDATE jobs SET handed_over_at = ?, deliveries = deliveries + 1, ready_at = ? WHERE {ROWS}
RETURNING job_id, deliveries"""
CLOSE_DELIVERIES = f"UPDATE jobs SET handed_over_at = NULL WHERE {ROWS}"
CALL_BACK = f"UPDATE jobs SET handed_over_at = NULL, ready_at = ? WHERE {ROWS}"
COUNT_RESCUES = f"UPDATE jobs SET rescues = rescues + 1 WHERE {ROWS}"
LEAVE_DELIVERY = """
UPDATE jobs SET ready_at = ? WHERE job_id = ? AND deliveries = ? AND handed_over_at IS NOT NULL AND status = 'queued'"""
WITHDRAW_DELIVERY = """
UPDATE jobs SET handed_over_at = NULL WHERE job_id = ? AND deliveries = ? AND ready_at IS NULL"""

# The unique key on uid.
COUNTERS = f"SELECT {', '.join(ScheduleCounters._fields)} FROM schedules WHERE uid IN"
# The unique key on job_id, and the primary key of schedules.
FINISHED = """
SELECT j.row_id, j.job_id, j.uid, j.origin, j.status, j.is_counted, j.guard_key, j.capacity_key, j.breaker_key, j.node,
    j.fence, j.released_at, s.row_id, s.revision, s.outstanding
FROM jobs j LEFT JOIN schedules s ON s.row_id = j.schedule_row AND s.uid = j.uid WHERE j.job_id IN"""

START_JOBS = f"""
UPDATE jobs SET status = 'running', ready_at = NULL, attempt = attempt + 1, started_at = ?, deadline_at = ?,
    node = ?, fence = fence + 1, is_counted = 1, is_probe = ? WHERE {ROWS}"""
COUNT_STARTS = f"""
UPDATE schedules SET running_jobs = running_jobs + ?, waiting = waiting + ?, retries_waiting = retries_waiting + ?,
    last_run_at = coalesce(?, last_run_at) WHERE {ROWS}"""
# The primary keys of both. No schedule has two of these jobs.
COUNT_SUCCESSES = f"""
UPDATE schedules SET outstanding = outstanding - 1, running_jobs = running_jobs - 1, run_count = run_count + 1,
    current_repeat = current_repeat + 1, current_retry = 0, failed_slots = 0, last_completed_at = ?,
    last_success_at = ?, last_success_job_id = ended.job_id
FROM (SELECT job_id, schedule_row FROM jobs WHERE {ROWS}) AS ended WHERE schedules.row_id = ended.schedule_row"""
POSTPONE_JOB = "UPDATE jobs SET ready_at = ? WHERE row_id = ?"
# idx_jobs_ready: a breaker that closes releases its retries.
LET_RETRIES_GO = """
UPDATE jobs SET ready_at = :now WHERE ready_at > :now AND breaker_key = :key AND origin = 'retry'
    AND not_before <= :now"""

END_JOB = """
UPDATE jobs SET status = ?, ended_at = ?, released_at = ?, error = ?, result = ? WHERE row_id = ?"""
# The same without error and result: a job ends once, so both are still empty.
END_JOBS_SILENTLY = f"UPDATE jobs SET status = ?, ended_at = ?, released_at = ? WHERE {ROWS}"
HAND_OVER_JOB = f"""
UPDATE jobs SET node = '{EXTERNAL}', outcome_token = ? WHERE row_id = ? AND fence = ? AND status = 'running'"""
KEEP_JOB = "UPDATE jobs SET released_at = NULL WHERE row_id = ?"
RELEASE_JOB = "UPDATE jobs SET released_at = ? WHERE row_id = ?"
REQUEUE_JOB = """
UPDATE jobs SET status = 'queued', ready_at = :now, node = NULL, fence = fence + 1, rescues = rescues + :counted,
    is_ready = 1 WHERE row_id = :row_id"""

# idx_jobs_outstanding, whose exact condition must be repeated here: the next in line. The claim checks whether
# another job of the schedule is still running.
READY_SUCCESSOR = """
UPDATE jobs SET is_ready = 1, ready_at = :now WHERE row_id = (
    SELECT row_id FROM jobs WHERE uid = :uid AND status IN ('queued', 'running') AND status = 'queued'
        AND ready_at IS NULL AND line = 'own' ORDER BY slot_at, row_id LIMIT 1)"""
# idx_jobs_outstanding, idx_jobs_unreleased: the next of another line, when no job of that line is ready or running.
READY_BESIDE = """
UPDATE jobs SET is_ready = 1, ready_at = max(:now, coalesce(not_before, :now)) WHERE row_id = (
    SELECT row_id FROM jobs WHERE uid = :uid AND status IN ('queued', 'running') AND status = 'queued'
        AND ready_at IS NULL AND line = :line ORDER BY slot_at, row_id LIMIT 1)
AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE uid = :uid AND status IN ('queued', 'running') AND line = :line
        AND (status = 'running' OR ready_at IS NOT NULL))
AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE node IS NOT NULL AND released_at IS NULL AND uid = :uid AND line = :line)"""

# idx_schedules_held: the oldest first.
RELEASE_HELD = """
UPDATE schedules SET release_at = :now WHERE row_id IN (
    SELECT row_id FROM schedules WHERE held_key = :key AND release_at IS NULL
    ORDER BY held_due_at, row_id LIMIT :places)"""
# idx_schedules_held: the one after the declined slot.
RELEASE_NEXT_HELD = """
UPDATE schedules SET release_at = :now WHERE row_id = (
    SELECT row_id FROM schedules WHERE held_key = :key AND release_at IS NULL
        AND (held_due_at, row_id) > (:due_at, :row_id) ORDER BY held_due_at, row_id LIMIT 1)"""

# idx_jobs_unreleased
JOBS_OF_DEAD_NODES = f"""
SELECT {JOB} FROM jobs WHERE node IS NOT NULL AND released_at IS NULL AND node IN (
    SELECT node FROM nodes WHERE node <> :node
        AND (stopped_at IS NOT NULL OR heartbeat_at NOT BETWEEN :oldest AND :newest))"""
# nodes, whole: one row per start of a process. A heartbeat in the future dates from before the clock was set back.
NODE = ", ".join(Node._fields)
NODES = f"SELECT {NODE} FROM nodes ORDER BY started_at, node"
LOST_NODES = f"""
SELECT {NODE} FROM nodes WHERE node <> :node AND stopped_at IS NULL AND lost_at IS NULL
    AND heartbeat_at NOT BETWEEN :oldest AND :newest ORDER BY node"""
# idx_jobs_unreleased
JOBS_EXTERNAL_OVER = f"""
SELECT {JOB} FROM jobs WHERE node = '{EXTERNAL}' AND released_at IS NULL
    AND (status = 'cancelled' OR deadline_at <= ?)"""
# The unique key on job_id.
OUTCOME_TOKEN = "SELECT outcome_token FROM jobs WHERE job_id = ?"
JOBS_OF_NODE = f"SELECT {JOB} FROM jobs WHERE node = ? AND released_at IS NULL"
CANCEL_REQUESTS = """
SELECT job_id FROM jobs WHERE node = :node AND released_at IS NULL AND status = 'cancelled'"""

HEARTBEAT = f"""
INSERT INTO nodes (node, version, is_scheduler, is_worker, started_at, heartbeat_at, migration)
VALUES (:node, :version, :scheduler, :worker, :now, :now, {MIGRATIONS[-1].number})
ON CONFLICT (node) DO UPDATE SET heartbeat_at = :now, lost_at = NULL"""
SIGN_OFF = "UPDATE nodes SET stopped_at = :now, heartbeat_at = :now WHERE node = :node"
# idx_jobs_unreleased: jobs that the node has not released would have no owner without its row.
FORGET_NODE = """
DELETE FROM nodes WHERE node = :node
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE node = :node AND released_at IS NULL) RETURNING node"""
LAST_HEARTBEAT = "SELECT max(heartbeat_at) FROM nodes WHERE is_scheduler"
# idx_audit_schedule: events of no schedule are its first. Only steps forwards skip time.
CLOCK_STEPS = """
SELECT json_extract(detail, '$.from'), json_extract(detail, '$.to') FROM audit_events
WHERE uid IS NULL AND type = 'scheduler.clock_stepped' AND at >= :since
    AND json_extract(detail, '$.to') > json_extract(detail, '$.from') ORDER BY id"""
COVERAGE = """
SELECT started_at, heartbeat_at FROM nodes WHERE is_scheduler AND heartbeat_at >= :since ORDER BY started_at"""

# The unique keys on schedule_id and uid.
STATE_BY_ID = f"""
SELECT {STATE} FROM schedules WHERE schedule_id = :id OR uid = :id ORDER BY schedule_id = :id DESC"""
# idx_schedules_next_run, from its front.
STATES_SOONEST = f"""
SELECT {STATE} FROM schedules WHERE enabled AND next_run_at IS NOT NULL AND (:owner IS NULL OR owner = :owner)
ORDER BY next_run_at LIMIT :limit"""
# A pass over schedules: rare, and by slot_at, which no index has (it differs from next_run_at by jitter).
STATES_REACHED = f"SELECT {STATE} FROM schedules WHERE enabled AND next_slot_at <= ? ORDER BY row_id"
# idx_schedules_release: a deferred slot has its opening there, and no key.
STATES_DEFERRED = f"""
SELECT {STATE} FROM schedules WHERE release_at IS NOT NULL AND held_key IS NULL AND quiet_hours_policy_id = ?"""
# idx_schedules_resume
DUE_TO_RESUME = """
SELECT schedule_id FROM schedules WHERE resume_at IS NOT NULL AND resume_at <= ? AND status = 'paused'"""
# idx_jobs_outstanding, whole: few of all jobs are outstanding.
QUEUED_CATCH_UP = f"""
SELECT {JOB} FROM jobs WHERE status IN ('queued', 'running') AND status = 'queued' AND origin = 'catch_up'
    AND breaker_key IN"""
# idx_jobs_slot and idx_jobs_backfill
FILLED_SLOTS = """
SELECT slot_at FROM jobs WHERE uid = :uid AND slot_at IN (SELECT value FROM json_each(:slots))
    AND origin IN ('schedule', 'catch_up')
UNION ALL
SELECT slot_at FROM jobs WHERE uid = :uid AND slot_at IN (SELECT value FROM json_each(:slots))
    AND origin = 'backfill'"""
# idx_jobs_outstanding, whole; idx_jobs_unreleased, whole. Used when a backup is restored.
ALL_OUTSTANDING = f"SELECT {JOB} FROM jobs WHERE status IN ('queued', 'running') ORDER BY row_id"
UNRELEASED_JOBS = f"SELECT {JOB} FROM jobs WHERE node IS NOT NULL AND released_at IS NULL ORDER BY row_id"
# nodes, whole; the primary keys of jobs and audit_events, one step from their ends.
LAST_INSTANT = """
SELECT max(at) FROM (SELECT max(heartbeat_at) AS at FROM nodes
    UNION ALL SELECT created_at FROM jobs WHERE row_id = (SELECT max(row_id) FROM jobs)
    UNION ALL SELECT at FROM audit_events WHERE id = (SELECT max(id) FROM audit_events)) AS ends"""
# idx_jobs_outstanding
OUTSTANDING = f"SELECT {JOB} FROM jobs WHERE status IN ('queued', 'running') AND uid IN"

# Newest first: the primary key backwards; of an owner or a group idx_schedules_owner, idx_schedules_group.
ENTRY = f"{STATE}, source, key, token_id, created_at, updated_at"
# idx_schedules_token
COUNT_OF_TOKEN = "SELECT count(*) FROM schedules WHERE token_id = ?"

# The unique keys on hash and token_id.
TOKEN = ", ".join(TOKEN_COLUMNS)
TOKENS = f"SELECT {TOKEN} FROM tokens"
INSERT_TOKEN = f"""
INSERT INTO tokens (hash, {TOKEN}) VALUES (?, {", ".join("?" * len(TOKEN_COLUMNS))}) ON CONFLICT DO NOTHING"""
REVOKE_TOKEN = "UPDATE tokens SET revoked_at = ? WHERE token_id = ? AND revoked_at IS NULL"
# The primary key of sessions, then that of tokens. There are only a few sessions at a time: an insert scans them.
TOKEN_OF_SESSION = f"""
SELECT {", ".join(f"t.{name}" for name in TOKEN_COLUMNS)} FROM sessions s JOIN tokens t ON t.token_id = s.token_id
WHERE s.hash = ? AND s.expires_at > ?"""
INSERT_SESSION = "INSERT INTO sessions (hash, token_id, created_at, expires_at) VALUES (?, ?, ?, ?)"
FORGET_SESSIONS = "DELETE FROM sessions WHERE expires_at <= ?"
DELETE_SESSION = "DELETE FROM sessions WHERE hash = ?"
# idx_audit_schedule.
REQUESTER = """
SELECT actor FROM audit_events
WHERE uid = ? AND slot_at = ? AND job_id = ? AND type IN ('job.triggered', 'job.rerun')"""
# The primary key of idempotency_keys; idx_idempotency_age, a few from its front.
ANSWER = "SELECT token_id, key, digest, answer FROM idempotency_keys WHERE token_id = ? AND key = ? AND created_at > ?"
INSERT_ANSWER = """
INSERT INTO idempotency_keys (token_id, key, digest, answer, created_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (token_id, key) DO UPDATE SET digest = excluded.digest, answer = excluded.answer,
    created_at = excluded.created_at WHERE idempotency_keys.created_at <= ?"""
FORGET_ANSWERS = """
DELETE FROM idempotency_keys WHERE (token_id, key) IN (
    SELECT token_id, key FROM idempotency_keys WHERE created_at <= ? ORDER BY created_at LIMIT 100)"""

INSERT_REVISION = """
INSERT INTO schedule_revisions (uid, revision, schedule_id, in_force_at, anchor_at, words, cause)
VALUES (?, ?, ?, ?, ?, ?, ?)"""
# idx_revisions_before, and the unique key on uid: schedules whose newest revision an earlier release has written.
STATES_FROM_BEFORE = f"""
SELECT {", ".join(f"s.{name}" for name in State._fields)} FROM schedule_revisions r
JOIN schedules s ON s.uid = r.uid AND s.revision = r.revision
WHERE r.cause IS NULL AND s.source = :source AND (s."group" IS NOT NULL OR NOT :only_groups) ORDER BY s.row_id"""
# The primary key of schedule_revisions.
PUT_CAUSE = "UPDATE schedule_revisions SET cause = ? WHERE uid = ? AND revision = ? AND cause IS NULL"
PUT_SETTING = """
INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"""
PUT_POLICY = """
INSERT INTO quiet_hours_policies (policy_id, name, source, words, created_at, updated_at)
VALUES (:id, :name, :source, :words, :now, :now)
ON CONFLICT (policy_id) DO UPDATE SET name = :name, words = :words, updated_at = :now"""
# The primary key of quiet_hours_policies.
POLICIES_OF = "SELECT policy_id, words FROM quiet_hours_policies WHERE policy_id IN"
POLICIES = """
SELECT policy_id, words FROM quiet_hours_policies WHERE :source IS NULL OR source = :source ORDER BY policy_id"""
# The primary key, from its end.
CONFIG_REVISION = "SELECT id, digest FROM config_revisions WHERE source = ? ORDER BY id DESC LIMIT 1"
CONFIG_PLACES = "SELECT places FROM config_revisions WHERE source = 'config' ORDER BY id DESC LIMIT 1"
CONFIG_SECTIONS = "SELECT sections FROM config_revisions WHERE source = 'config' ORDER BY id DESC LIMIT 1"
FORGET_PLACES = (
    "UPDATE config_revisions SET places = NULL, sections = NULL WHERE places IS NOT NULL AND source = ?"
)
INSERT_CONFIG = """
INSERT INTO config_revisions (at, source, digest, actor, places, sections)
VALUES (:now, :source, :digest, :actor, :places, :sections)"""

# The primary key of job_output.
PUT_OUTPUT = """
INSERT INTO job_output (job_id, attempt, stream, position, at, data) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id, attempt, stream, position) DO UPDATE SET data = excluded.data"""
DROP_OUTPUT = """
DELETE FROM job_output WHERE job_id = ? AND attempt = ? AND stream = ?
    AND position >= ? AND position + length(data) <= ?"""
OUTPUT = "SELECT attempt, stream, position, data FROM job_output WHERE job_id = ? ORDER BY attempt, stream, position"

# The primary key of plugin_state; the unique key on event_id: an existing message is not written twice.
PUT_PLUGIN_STATE = """
INSERT INTO plugin_state (plugin, state, updated_at) VALUES (?, ?, ?)
ON CONFLICT (plugin) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at"""
INSERT_MESSAGE = """
INSERT INTO messages (event_id, at, schedule_id, uid, owner, job_id, body) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (event_id) DO NOTHING"""
# The primary key of messages. An id is never reused, so the last one outlives what retention deletes.
MESSAGES_AFTER = f"SELECT {', '.join(Message._fields)} FROM messages WHERE id > ? ORDER BY id LIMIT ?"
# The primary key, backwards, until the page is full; idx_messages_at where an instant is given and few follow it.
_MESSAGES_WANTED = """
FROM messages WHERE (:owner IS NULL OR owner = :owner) AND (:schedule_id IS NULL OR schedule_id = :schedule_id)
    AND (:since IS NULL OR at >= :since) AND (:until IS NULL OR at < :until) AND (:before IS NULL OR id < :before)"""
LIST_MESSAGES = f"SELECT {', '.join(Message._fields)} {_MESSAGES_WANTED} ORDER BY id DESC LIMIT :limit"
COUNT_MESSAGES = f"SELECT count(*) FROM (SELECT 1 {_MESSAGES_WANTED} LIMIT :limit)"
LAST_MESSAGE = "SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'messages')"
SUBSCRIPTIONS = f"SELECT {', '.join(Subscription._fields)} FROM subscriptions"
_HELD = [name for name in Subscription._fields if name != "subscriber"]
PUT_SUBSCRIPTION = f"""
INSERT INTO subscriptions (subscriber, {", ".join(_HELD)}, created_at, updated_at)
VALUES (:subscriber, {", ".join(f":{name}" for name in _HELD)}, :now, :now)
ON CONFLICT (subscriber) DO UPDATE SET {", ".join(f"{n} = excluded.{n}" for n in _HELD)}, updated_at = :now"""
