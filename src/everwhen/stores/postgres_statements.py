"""The SQL statements of PostgreSQL, by name. A comment names the index that serves each.

Batches come as one array per column, unnested: the generic plan iterates over them and looks each row up in an index.
"""

from __future__ import annotations

from everwhen.model.breaker import Breaker
from everwhen.model.counters import ScheduleCounters
from everwhen.model.events import Event
from everwhen.model.job import EXTERNAL, Job
from everwhen.model.limits import Limit
from everwhen.model.node import Node
from everwhen.model.row_changes import ENDED_WELL, STARTED
from everwhen.model.schedule import State
from everwhen.model.subscription import Message, Subscription
from everwhen.model.token import TOKEN_COLUMNS
from everwhen.stores.migrations.postgres import MIGRATIONS

STATE = ", ".join(State._fields)
JOB = ", ".join(Job._fields)
EVENT = ", ".join("detail::text" if name == "detail" else name for name in Event._fields)
LIMIT = ", ".join(Limit._fields)
BREAKER = ", ".join(Breaker._fields)

# idx_schedules_release, then idx_schedules_next_run: ranges from the front, whatever the number of schedules.
_RELEASED = """
(SELECT row_id, uid, revision FROM schedules
 WHERE release_at IS NOT NULL AND release_at <= %(now)s AND enabled
    AND (next_run_at IS NULL OR next_run_at > %(now)s)
 ORDER BY release_at, held_due_at LIMIT %(until)s)"""
PEEK_DUE = f"""
SELECT row_id, uid, revision FROM (
    {_RELEASED}
    UNION ALL
    (SELECT row_id, uid, revision FROM schedules
     WHERE enabled AND next_run_at > %(floor)s AND next_run_at <= %(now)s ORDER BY next_run_at LIMIT %(until)s)
) due OFFSET %(offset)s LIMIT %(limit)s"""
PEEK_BEHIND = """
SELECT row_id, uid, revision FROM schedules
WHERE enabled AND next_run_at >= %(mark)s AND next_run_at <= %(floor)s
ORDER BY next_run_at OFFSET %(offset)s LIMIT %(limit)s"""
# The primary key of schedules. The condition is repeated: another node may have decided them since the peek.
TAKE_DUE = f"""
SELECT {STATE} FROM schedules
WHERE row_id = ANY(%(rows)s) AND enabled AND (next_run_at <= %(now)s OR release_at <= %(now)s)
FOR UPDATE SKIP LOCKED"""

_IS_PAUSED = "EXISTS (SELECT 1 FROM settings WHERE key = 'system_paused' AND value <> '')"
# idx_schedules_next_run, idx_schedules_release: one step into each. Dead entries stay in an index until it is
# vacuumed, and a scan from the very front passes all of them: it starts at the mark to skip them.
EARLIEST_DUE = """
(SELECT next_run_at FROM schedules WHERE enabled AND next_run_at >= %s ORDER BY next_run_at LIMIT 1)
UNION ALL
(SELECT release_at FROM schedules WHERE release_at IS NOT NULL ORDER BY release_at LIMIT 1)"""
NEXT_DUE = f"""
SELECT CASE WHEN NOT {_IS_PAUSED} THEN least(
    (SELECT min(next_run_at) FROM schedules WHERE enabled AND next_run_at >= %s),
    (SELECT min(release_at) FROM schedules WHERE release_at IS NOT NULL)) END"""
# idx_schedules_resume, from its front.
NEXT_RESUME = "SELECT min(resume_at) FROM schedules WHERE resume_at IS NOT NULL AND status = 'paused'"

# The unique keys on schedule_id and uid.
STATE_BY_ID = f"""
SELECT {STATE} FROM schedules WHERE schedule_id = %(id)s OR uid = %(id)s ORDER BY schedule_id = %(id)s DESC
LIMIT 1"""
# The same, and idx_jobs_outstanding.
PEEK_SCHEDULE = """
WITH wanted AS (SELECT uid, revision FROM schedules WHERE schedule_id = %(id)s OR uid = %(id)s)
SELECT uid, revision, NULL, NULL, NULL FROM wanted
UNION ALL
SELECT uid, revision, guard_key, capacity_key, breaker_key FROM jobs
WHERE uid IN (SELECT uid FROM wanted) AND status IN ('queued', 'running')"""
STATES_OF = f"SELECT {STATE} FROM schedules WHERE uid = ANY(%s) ORDER BY uid"
SCHEDULES_OF = "SELECT uid FROM schedules WHERE uid = ANY(%s) ORDER BY uid"
COUNTERS_OF = f"SELECT {', '.join(ScheduleCounters._fields)} FROM schedules WHERE uid = ANY(%s) ORDER BY uid"
STATES_OF_SOURCE = f"SELECT {STATE} FROM schedules WHERE source = %s ORDER BY uid"
# idx_schedules_next_run, from its front.
STATES_SOONEST = f"""
SELECT {STATE} FROM schedules WHERE enabled AND next_run_at IS NOT NULL
    AND (%(owner)s::text IS NULL OR owner = %(owner)s) ORDER BY next_run_at LIMIT %(limit)s"""
# A pass over schedules: rare, and by slot_at, which no index has (it differs from next_run_at by jitter).
STATES_REACHED = f"SELECT {STATE} FROM schedules WHERE enabled AND next_slot_at <= %s ORDER BY uid"
# idx_schedules_next_run and idx_schedules_release, each from its front.
STATES_UNTIL = f"""
SELECT {STATE} FROM schedules WHERE row_id IN (
    (SELECT row_id FROM schedules WHERE enabled AND next_run_at <= %(until)s ORDER BY next_run_at LIMIT %(limit)s)
    UNION (SELECT row_id FROM schedules WHERE release_at IS NOT NULL AND release_at <= %(until)s AND enabled
        ORDER BY release_at LIMIT %(limit)s))"""
# idx_schedules_release: a deferred slot has its opening there, and no key.
STATES_DEFERRED = f"""
SELECT {STATE} FROM schedules WHERE release_at IS NOT NULL AND held_key IS NULL AND quiet_hours_policy_id = %s
ORDER BY uid"""
# idx_schedules_resume
DUE_TO_RESUME = """
SELECT schedule_id FROM schedules WHERE resume_at IS NOT NULL AND resume_at <= %s AND status = 'paused'"""


def places(count: int) -> str:
    return ", ".join(["%s"] * count)


# idx_schedules_held: the oldest first. Slots that were decided meanwhile are not held any more, and are left alone. No
# slot is released before it is due: another node, whose time was ahead, may have held it.
RELEASE_HELD = """
UPDATE schedules s SET release_at = greatest(%s, s.held_due_at)
FROM unnest(%s, %s) AS freed(key, places)
CROSS JOIN LATERAL (
    SELECT row_id FROM schedules WHERE held_key = freed.key AND release_at IS NULL
    ORDER BY held_due_at, row_id LIMIT freed.places) AS oldest
WHERE s.row_id = oldest.row_id AND s.held_key = freed.key AND s.release_at IS NULL"""
# idx_schedules_held: the one after the declined slot.
RELEASE_NEXT_HELD = """
UPDATE schedules s SET release_at = greatest(%s, s.held_due_at)
FROM unnest(%s, %s, %s) AS declined(key, due_at, row_id)
CROSS JOIN LATERAL (
    SELECT row_id FROM schedules WHERE held_key = declined.key AND release_at IS NULL
        AND (held_due_at, row_id) > (declined.due_at, declined.row_id)
    ORDER BY held_due_at, row_id LIMIT 1) AS following
WHERE s.row_id = following.row_id AND s.held_key = declined.key AND s.release_at IS NULL"""

# -- jobs --


# idx_jobs_ready; the primary key of limits and the unique key on uid, one step into each. Jobs that cannot start now
# are excluded here, so that a thousand jobs that wait for capacity do not hide the one behind them.
_CAN_START = """
    (capacity_limit IS NULL OR capacity_limit > coalesce((SELECT running FROM limits WHERE key = capacity_key), 0))
    AND (line IS NULL OR line <> 'own'
        OR coalesce((SELECT running_jobs FROM schedules WHERE schedules.uid = jobs.uid), 0) = 0)"""
# The queues of one program contain an @; only workers that name such a queue take its jobs (model/bound_queue.py).
_IS_OURS = "(%(queues)s::text[] IS NULL AND strpos(queue, '@') = 0 OR queue = ANY(%(queues)s))"
PEEK_READY = f"""
SELECT row_id, uid, revision, guard_key, capacity_key, breaker_key FROM jobs
WHERE ready_at IS NOT NULL AND ready_at <= %(now)s AND ready_at >= %(mark)s
    AND {_IS_OURS} AND {_CAN_START}
ORDER BY ready_at, row_id LIMIT %(limit)s"""
# idx_jobs_ready, as above; for reading, not for a claim.
JOBS_UNTIL = f"""
SELECT {JOB} FROM jobs WHERE ready_at IS NOT NULL AND ready_at <= %(until)s
    AND strpos(queue, '@') = 0 AND {_CAN_START}
ORDER BY ready_at, row_id LIMIT %(limit)s"""
# The primary key of jobs. The condition is repeated: they may have changed since the peek.
TAKE_READY = f"""
SELECT {JOB} FROM jobs WHERE row_id = ANY(%(rows)s) AND ready_at <= %(now)s ORDER BY ready_at, row_id"""
# idx_jobs_outstanding
READY_OF = f"""
SELECT {JOB} FROM jobs WHERE uid = ANY(%(uids)s) AND status IN ('queued', 'running') AND ready_at <= %(now)s
    AND line = 'own' AND {_IS_OURS} ORDER BY uid, slot_at, row_id"""
NEXT_READY = f"""
SELECT (SELECT ready_at FROM jobs WHERE ready_at IS NOT NULL AND ready_at >= %(mark)s AND NOT {_IS_PAUSED}
    AND {_IS_OURS} AND {_CAN_START} ORDER BY ready_at LIMIT 1)"""
# -- the outbox --

# idx_jobs_ready, as above; idx_jobs_handed_key and idx_jobs_outstanding: jobs that are handed over count as running.
_IS_SENT = "sent.handed_over_at IS NOT NULL AND sent.status = 'queued'"
_CAN_GO = f"""
    handed_over_at IS NULL AND strpos(queue, '@') = 0 AND {_CAN_START}
    AND (capacity_limit IS NULL OR capacity_limit >
        coalesce((SELECT running FROM limits WHERE key = jobs.capacity_key), 0)
        + (SELECT count(*) FROM jobs sent WHERE sent.capacity_key IS NOT NULL AND sent.capacity_key = jobs.capacity_key
            AND {_IS_SENT}))
    AND (line IS NULL OR line <> 'own' OR NOT EXISTS (
        SELECT 1 FROM jobs sent WHERE sent.uid = jobs.uid AND sent.line = 'own' AND {_IS_SENT}))"""
PEEK_DELIVERABLE = f"""
SELECT row_id, uid, revision, guard_key, capacity_key, breaker_key FROM jobs
WHERE ready_at IS NOT NULL AND ready_at <= %(now)s AND ready_at >= %(mark)s AND {_CAN_GO}
ORDER BY ready_at, row_id LIMIT %(limit)s"""
# The primary key of jobs. The condition is repeated: they may have changed since the peek.
TAKE_DELIVERABLE = f"""
SELECT {JOB} FROM jobs WHERE row_id = ANY(%(rows)s) AND ready_at <= %(now)s AND handed_over_at IS NULL
ORDER BY ready_at, row_id"""
NEXT_DELIVERY = f"""
SELECT least(
    (SELECT ready_at FROM jobs WHERE ready_at IS NOT NULL AND ready_at >= %(mark)s AND NOT {_IS_PAUSED} AND {_CAN_GO}
        ORDER BY ready_at LIMIT 1),
    (SELECT min(ready_at) FROM jobs WHERE handed_over_at IS NOT NULL))"""
# idx_jobs_handed_key, idx_jobs_outstanding
SENT_KEYS = """
SELECT capacity_key, count(*) FROM jobs WHERE handed_over_at IS NOT NULL AND capacity_key = ANY(%s)
    AND status = 'queued' GROUP BY capacity_key"""
SENT_LINES = """
SELECT DISTINCT uid FROM jobs WHERE uid = ANY(%s) AND status = 'queued' AND line = 'own'
    AND handed_over_at IS NOT NULL"""
# The unique key on job_id.
SENT_NUMBERS = "SELECT job_id, deliveries FROM jobs WHERE handed_over_at IS NOT NULL AND job_id = ANY(%s)"
DELIVERY = "job_id, deliveries, queue, handed_over_at"
DELIVERY_OF = f"""
SELECT {DELIVERY} FROM jobs WHERE job_id = %s AND handed_over_at IS NOT NULL AND status = 'queued'"""
# idx_jobs_handed_over: jobs that were not claimed in time, and jobs that are no longer ready, so need no message.
OVERDUE_DELIVERIES = f"""
SELECT {DELIVERY} FROM jobs WHERE handed_over_at IS NOT NULL AND ready_at <= %s AND status = 'queued'
ORDER BY ready_at LIMIT %s"""
NEEDLESS_DELIVERIES = f"""
SELECT {DELIVERY} FROM jobs WHERE handed_over_at IS NOT NULL AND ready_at IS NULL AND status <> 'running'
LIMIT %s"""
# The primary key of jobs.
SEND_JOBS = """
UPDATE jobs j SET handed_over_at = %s, deliveries = deliveries + 1, ready_at = %s
FROM unnest(%s, %s) AS v(row_id, fence)
WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'queued' AND j.handed_over_at IS NULL
RETURNING j.job_id, j.deliveries"""
CLOSE_DELIVERIES = (
    "UPDATE jobs SET handed_over_at = NULL WHERE row_id = ANY(%s) AND handed_over_at IS NOT NULL"
)
CALL_BACK = (
    "UPDATE jobs SET handed_over_at = NULL, ready_at = %s WHERE row_id = ANY(%s) AND status = 'queued'"
)
COUNT_RESCUES = "UPDATE jobs SET rescues = rescues + 1 WHERE row_id = ANY(%s)"
# The unique key on job_id.
LEAVE_DELIVERIES = """
UPDATE jobs j SET ready_at = v.ready_at FROM unnest(%s, %s, %s) AS v(ready_at, job_id, deliveries)
WHERE j.job_id = v.job_id AND j.deliveries = v.deliveries AND j.handed_over_at IS NOT NULL AND j.status = 'queued'"""
WITHDRAW_DELIVERIES = """
UPDATE jobs j SET handed_over_at = NULL FROM unnest(%s, %s) AS v(job_id, deliveries)
WHERE j.job_id = v.job_id AND j.deliveries = v.deliveries AND j.ready_at IS NULL"""

# idx_jobs_ready, from the very front.
FIRST_READY = "SELECT min(ready_at) FROM jobs WHERE ready_at IS NOT NULL"

# The unique key on job_id.
PEEK_JOBS = """
SELECT uid, revision, guard_key, capacity_key, breaker_key FROM jobs WHERE job_id = ANY(%s)"""
JOBS = f"SELECT {JOB} FROM jobs WHERE job_id = ANY(%s) ORDER BY row_id"
# The same, and the primary key of schedules.
FINISHED = """
SELECT j.row_id, j.job_id, j.uid, j.origin, j.status, j.is_counted, j.guard_key, j.capacity_key, j.breaker_key, j.node,
    j.fence, j.released_at, s.row_id, s.revision, s.outstanding
FROM jobs j LEFT JOIN schedules s ON s.row_id = j.schedule_row AND s.uid = j.uid WHERE j.job_id = ANY(%s)"""

# idx_jobs_slot and idx_jobs_backfill
FILLED_SLOTS = """
SELECT slot_at FROM jobs WHERE uid = %(uid)s AND slot_at = ANY(%(slots)s) AND origin IN ('schedule', 'catch_up')
UNION ALL
SELECT slot_at FROM jobs WHERE uid = %(uid)s AND slot_at = ANY(%(slots)s) AND origin = 'backfill'"""
# The numbers by which readers follow streams.
SEQUENCES = (("audit_events", "id"), ("jobs", "row_id"), ("messages", "id"))
# idx_jobs_outstanding, whole; idx_jobs_unreleased, whole. Used when a backup is restored.
ALL_OUTSTANDING = f"SELECT {JOB} FROM jobs WHERE status IN ('queued', 'running') ORDER BY row_id"
UNRELEASED_JOBS = f"SELECT {JOB} FROM jobs WHERE node IS NOT NULL AND released_at IS NULL ORDER BY row_id"
# nodes, whole; the primary keys of jobs and audit_events, one step from their ends.
LAST_INSTANT = """
SELECT max(at) FROM (SELECT max(heartbeat_at) AS at FROM nodes
    UNION ALL SELECT created_at FROM jobs WHERE row_id = (SELECT max(row_id) FROM jobs)
    UNION ALL SELECT at FROM audit_events WHERE id = (SELECT max(id) FROM audit_events)) AS ends"""
# idx_jobs_outstanding
OUTSTANDING = f"""
SELECT {JOB} FROM jobs WHERE uid = ANY(%s) AND status IN ('queued', 'running') ORDER BY uid, slot_at, row_id"""
# idx_jobs_outstanding, whole: few of all jobs are outstanding.
QUEUED_CATCH_UP = f"""
SELECT {JOB} FROM jobs WHERE status = 'queued' AND origin = 'catch_up' AND breaker_key = ANY(%s)
ORDER BY uid, slot_at, row_id"""
# idx_jobs_unreleased
JOBS_OF_DEAD_NODES = f"""
SELECT {JOB} FROM jobs WHERE node IS NOT NULL AND released_at IS NULL AND node IN (
    SELECT node FROM nodes WHERE node <> %s
        AND (stopped_at IS NOT NULL OR heartbeat_at NOT BETWEEN %s AND %s)) ORDER BY row_id"""
# nodes, whole: one row per start of a process. A heartbeat in the future dates from before the clock was set back.
NODE = ", ".join(Node._fields)
NODES = f"SELECT {NODE} FROM nodes ORDER BY started_at, node"
LOST_NODES = f"""
SELECT {NODE} FROM nodes WHERE node <> %s AND stopped_at IS NULL AND lost_at IS NULL
    AND heartbeat_at NOT BETWEEN %s AND %s ORDER BY node"""
PUT_LOST = "UPDATE nodes SET lost_at = %s WHERE node = ANY(%s) AND lost_at IS NULL RETURNING node"
# idx_jobs_unreleased
JOBS_EXTERNAL_OVER = f"""
SELECT {JOB} FROM jobs WHERE node = '{EXTERNAL}' AND released_at IS NULL
    AND (status = 'cancelled' OR deadline_at <= %s)"""
# The unique key on job_id.
OUTCOME_TOKEN = "SELECT outcome_token FROM jobs WHERE job_id = %s"
JOBS_OF_NODE = f"SELECT {JOB} FROM jobs WHERE node = %s AND released_at IS NULL ORDER BY row_id"
CANCEL_REQUESTS = """
SELECT job_id FROM jobs WHERE node = %s AND released_at IS NULL AND status = 'cancelled'"""

# The primary key of jobs, for all that follow.
START_JOBS = """
UPDATE jobs j SET status = 'running', ready_at = NULL, attempt = attempt + 1, started_at = %s, node = %s,
    deadline_at = v.deadline_at, fence = j.fence + 1, is_counted = true, is_probe = v.is_probe
FROM unnest(%s, %s, %s, %s) AS v(deadline_at, is_probe, row_id, fence)
WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'queued'"""
# The primary key of schedules.
COUNT_STARTS = f"""
UPDATE schedules SET {STARTED.to_sql(running="%s", began_waiting="%s", began_retries="%s", run_at="%s")}
WHERE row_id = ANY(%s)"""
COUNT_SUCCESSES = f"""
UPDATE schedules s SET {ENDED_WELL.to_sql(now="%s", job_id="v.job_id")}
FROM unnest(%s, %s) AS v(row_id, job_id) WHERE s.row_id = v.row_id"""
POSTPONE_JOBS = """
UPDATE jobs j SET ready_at = v.ready_at FROM unnest(%s, %s) AS v(ready_at, row_id) WHERE j.row_id = v.row_id"""
END_JOBS = """
UPDATE jobs j SET status = v.status, ended_at = %s, released_at = %s, error = v.error, result = v.result
FROM unnest(%s, %s, %s, %s, %s) AS v(status, error, result, row_id, fence)
WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'running'"""
# A running job that is cancelled keeps its node until the worker releases it.
CANCEL_JOBS = """
UPDATE jobs j SET status = 'cancelled', ended_at = %s, ready_at = NULL, reason = v.reason,
    cancel_requested = (status = 'running'),
    released_at = CASE status WHEN 'running' THEN NULL ELSE %s END
FROM unnest(%s, %s) AS v(reason, row_id) WHERE j.row_id = v.row_id AND j.status IN ('queued', 'running')"""
HAND_OVER_JOBS = f"""
UPDATE jobs j SET node = '{EXTERNAL}', outcome_token = v.token
FROM unnest(%s, %s, %s) AS v(token, row_id, fence)
WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'running'"""
KEEP_JOBS = "UPDATE jobs SET released_at = NULL WHERE row_id = ANY(%s)"
RELEASE_JOBS = "UPDATE jobs SET released_at = %s WHERE row_id = ANY(%s) AND released_at IS NULL"
REQUEUE_JOBS = """
UPDATE jobs j SET status = 'queued', ready_at = %s, node = NULL, fence = j.fence + 1, rescues = rescues + %s,
    is_ready = true
FROM unnest(%s, %s) AS v(row_id, fence) WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'running'"""
# idx_jobs_outstanding: the next in line. The claim checks whether another job of the schedule is still running.
READY_SUCCESSORS = """
UPDATE jobs j SET is_ready = true, ready_at = %s
FROM unnest(%s) AS queue(uid)
CROSS JOIN LATERAL (
    SELECT row_id FROM jobs WHERE uid = queue.uid AND status = 'queued' AND ready_at IS NULL AND line = 'own'
    ORDER BY slot_at, row_id LIMIT 1) AS successor
WHERE j.row_id = successor.row_id"""
# idx_jobs_outstanding, idx_jobs_unreleased: the next of another line, when no job of that line is ready or running.
READY_BESIDE = """
UPDATE jobs j SET is_ready = true, ready_at = greatest(%(now)s, coalesce(not_before, %(now)s))
FROM unnest(%(uids)s, %(lines)s) AS queue(uid, line)
CROSS JOIN LATERAL (
    SELECT row_id FROM jobs WHERE uid = queue.uid AND status = 'queued' AND ready_at IS NULL
        AND line = queue.line ORDER BY slot_at, row_id LIMIT 1) AS successor
WHERE j.row_id = successor.row_id
    AND NOT EXISTS (
        SELECT 1 FROM jobs o WHERE o.uid = queue.uid AND o.status IN ('queued', 'running')
            AND o.line = queue.line AND (o.status = 'running' OR o.ready_at IS NOT NULL))
    AND NOT EXISTS (
        SELECT 1 FROM jobs o WHERE o.node IS NOT NULL AND o.released_at IS NULL
            AND o.uid = queue.uid AND o.line = queue.line)"""
# idx_jobs_ready: a breaker that closes releases its retries.
LET_RETRIES_GO = """
UPDATE jobs SET ready_at = %(now)s WHERE ready_at > %(now)s AND breaker_key = ANY(%(keys)s) AND origin = 'retry'
    AND not_before <= %(now)s"""

# -- shared limits and breakers: primary keys --

LIMITS = f"SELECT {LIMIT} FROM limits WHERE key = ANY(%s) ORDER BY key"
MAKE_LIMITS = "INSERT INTO limits (key) SELECT unnest(%s) ON CONFLICT DO NOTHING"
PUT_LIMITS = f"""
UPDATE limits l SET {", ".join(f"{name} = v.{name}" for name in Limit._fields if name != "key")}
FROM unnest({places(len(Limit._fields))}) AS v({LIMIT}) WHERE l.key = v.key"""
BREAKERS = f"SELECT {BREAKER} FROM circuit_breakers WHERE key = ANY(%s) ORDER BY key"
MAKE_BREAKERS = """
INSERT INTO circuit_breakers (key, state) SELECT unnest(%s), 'closed' ON CONFLICT DO NOTHING"""
PUT_BREAKERS = f"""
UPDATE circuit_breakers b SET {", ".join(f"{name} = v.{name}" for name in Breaker._fields if name != "key")}
FROM unnest({places(len(Breaker._fields))}) AS v({BREAKER}) WHERE b.key = v.key"""

# -- settings, nodes, policies --

PUT_SETTING = """
INSERT INTO settings (key, value) VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"""
PUT_POLICY = """
INSERT INTO quiet_hours_policies (policy_id, name, source, words, created_at, updated_at)
VALUES (%(id)s, %(name)s, %(source)s, %(words)s, %(now)s, %(now)s)
ON CONFLICT (policy_id) DO UPDATE SET name = %(name)s, words = %(words)s, updated_at = %(now)s"""
# The primary key of quiet_hours_policies.
HOLD_POLICIES = """
SELECT policy_id, words FROM quiet_hours_policies WHERE policy_id = ANY(%s) ORDER BY policy_id FOR SHARE"""
POLICIES = """
SELECT policy_id, words FROM quiet_hours_policies WHERE %s::text IS NULL OR source = %s ORDER BY policy_id"""
# The primary key, from its end.
CONFIG_REVISION = "SELECT id, digest FROM config_revisions WHERE source = %s ORDER BY id DESC LIMIT 1"
CONFIG_PLACES = "SELECT places FROM config_revisions WHERE source = 'config' ORDER BY id DESC LIMIT 1"
CONFIG_SECTIONS = "SELECT sections FROM config_revisions WHERE source = 'config' ORDER BY id DESC LIMIT 1"
FORGET_PLACES = (
    "UPDATE config_revisions SET places = NULL, sections = NULL WHERE places IS NOT NULL AND source = %s"
)
INSERT_CONFIG = """
INSERT INTO config_revisions (at, source, digest, actor, places, sections) VALUES (%s, %s, %s, %s, %s, %s)"""
# Newest first: the primary key backwards; of an owner or a group idx_schedules_owner, idx_schedules_group.
ENTRY = f"{STATE}, source, key, token_id, created_at, updated_at"
# idx_schedules_token
COUNT_OF_TOKEN = "SELECT count(*) FROM schedules WHERE token_id = %s"
# The unique keys on hash and token_id.
TOKEN = ", ".join(TOKEN_COLUMNS)
TOKENS = f"SELECT {TOKEN} FROM tokens"
REVOKE_TOKEN = "UPDATE tokens SET revoked_at = %s WHERE token_id = %s AND revoked_at IS NULL"
# The primary key of sessions, then that of tokens. There are only a few sessions at a time: an insert scans them.
TOKEN_OF_SESSION = f"""
SELECT {", ".join(f"t.{name}" for name in TOKEN_COLUMNS)} FROM sessions s JOIN tokens t ON t.token_id = s.token_id
WHERE s.hash = %s AND s.expires_at > %s"""
FORGET_SESSIONS = "DELETE FROM sessions WHERE expires_at <= %s"
DELETE_SESSION = "DELETE FROM sessions WHERE hash = %s"
# idx_audit_schedule.
REQUESTER = """
SELECT actor FROM audit_events
WHERE uid = %s AND slot_at = %s AND job_id = %s AND type IN ('job.triggered', 'job.rerun')"""
# The primary key of idempotency_keys; idx_idempotency_age, a few from its front.
ANSWER = """
SELECT token_id, key, digest, answer FROM idempotency_keys WHERE token_id = %s AND key = %s AND created_at > %s"""
INSERT_ANSWER = """
INSERT INTO idempotency_keys (token_id, key, digest, answer, created_at) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (token_id, key) DO UPDATE SET digest = excluded.digest, answer = excluded.answer,
    created_at = excluded.created_at WHERE idempotency_keys.created_at <= %s"""
FORGET_ANSWERS = """
DELETE FROM idempotency_keys WHERE (token_id, key) IN (
    SELECT token_id, key FROM idempotency_keys WHERE created_at <= %s ORDER BY created_at LIMIT 100
    FOR UPDATE SKIP LOCKED)"""
REVISIONS = """
SELECT r.uid, r.revision, r.schedule_id, r.words FROM unnest(%s, %s) AS v(uid, revision)
JOIN schedule_revisions r ON r.uid = v.uid AND r.revision = v.revision"""
# idx_revisions_before, and the unique key on uid: schedules whose newest revision an earlier release has written.
STATES_FROM_BEFORE = f"""
SELECT {", ".join(f"s.{name}" for name in State._fields)} FROM schedule_revisions r
JOIN schedules s ON s.uid = r.uid AND s.revision = r.revision
WHERE r.cause IS NULL AND s.source = %(source)s AND (s."group" IS NOT NULL OR NOT %(only_groups)s) ORDER BY s.row_id"""
# The primary key of schedule_revisions.
PUT_CAUSES = """
UPDATE schedule_revisions r SET cause = v.cause FROM unnest(%s, %s, %s) AS v(cause, uid, revision)
WHERE r.uid = v.uid AND r.revision = v.revision AND r.cause IS NULL"""
HEARTBEAT = f"""
INSERT INTO nodes (node, version, is_scheduler, is_worker, started_at, heartbeat_at, clock_skew, migration)
VALUES (%(node)s, %(version)s, %(scheduler)s, %(worker)s, %(now)s, %(now)s, %(skew)s, {MIGRATIONS[-1].number})
ON CONFLICT (node) DO UPDATE SET heartbeat_at = %(now)s, clock_skew = %(skew)s, lost_at = NULL"""
SIGN_OFF = "UPDATE nodes SET stopped_at = %(now)s, heartbeat_at = %(now)s WHERE node = %(node)s"
# idx_jobs_unreleased: jobs that the node has not released would have no owner without its row.
FORGET_NODE = """
DELETE FROM nodes WHERE node = %(node)s
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE node = %(node)s AND released_at IS NULL) RETURNING node"""
TIME = "SELECT clock_timestamp()"
LAST_HEARTBEAT = "SELECT max(heartbeat_at) FROM nodes WHERE is_scheduler"
COVERAGE = """
SELECT started_at, heartbeat_at FROM nodes WHERE is_scheduler AND heartbeat_at >= %s ORDER BY started_at"""
# idx_audit_schedule: events of no schedule are its last. Only steps forwards skip time.
CLOCK_STEPS = """
SELECT (detail->>'from')::bigint, (detail->>'to')::bigint FROM audit_events
WHERE uid IS NULL AND type = 'scheduler.clock_stepped' AND at >= %s
    AND (detail->>'to')::bigint > (detail->>'from')::bigint ORDER BY id"""
# idx_schedules_next_run, one step from the mark: a sleeping node wakes for an earlier slot anyway. With EXISTS the
# generic plan expects every third row to be earlier, and reads the whole table to find none.
ANNOUNCE = """
SELECT pg_notify('everwhen', %(words)s) WHERE %(jobs)s
    OR coalesce((SELECT next_run_at FROM schedules WHERE enabled AND next_run_at >= %(mark)s
        ORDER BY next_run_at LIMIT 1) >= %(soonest)s, true)"""

# The primary key of job_output.
PUT_OUTPUT = """
INSERT INTO job_output (job_id, attempt, stream, position, at, data) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (job_id, attempt, stream, position) DO UPDATE SET data = excluded.data"""
DROP_OUTPUT = """
DELETE FROM job_output WHERE job_id = %s AND attempt = %s AND stream = %s
    AND position >= %s AND position + length(data) <= %s"""
OUTPUT = "SELECT attempt, stream, position, data FROM job_output WHERE job_id = %s ORDER BY attempt, stream, position"

# -- side effects of jobs, and their subscribers --

# The primary key of plugin_state; a row must exist to be locked.
PLUGIN_STATES = "SELECT plugin, state FROM plugin_state WHERE plugin = ANY(%s) ORDER BY plugin"
MAKE_PLUGIN_STATES = """
INSERT INTO plugin_state (plugin, updated_at) SELECT plugin, %s FROM unnest(%s) AS v(plugin) ON CONFLICT DO NOTHING"""
PUT_PLUGIN_STATES = """
UPDATE plugin_state p SET state = v.state, updated_at = %s FROM unnest(%s, %s) AS v(plugin, state)
WHERE p.plugin = v.plugin"""
MESSAGE = ", ".join(Message._fields)
NEW_MESSAGE = tuple(name for name in Message._fields if name != "id")
# The unique key on event_id: an existing message is not written twice.
UNLESS_SAID = "ON CONFLICT (event_id) DO NOTHING"
# idx_messages_commit; in commit order, as `postgres_ledger` explains.
COMMITTED = """
(xid < pg_snapshot_xmin(pg_current_snapshot()) OR xid >= pg_snapshot_xmax(pg_current_snapshot()))"""
MESSAGES_AFTER = f"""
SELECT {MESSAGE} FROM messages
WHERE (xid, id) > ((SELECT xid FROM messages WHERE id = %(id)s), %(id)s) AND {COMMITTED}
ORDER BY xid, id LIMIT %(limit)s"""
MESSAGES_ABOVE = f"""
SELECT {MESSAGE} FROM messages WHERE id > %(id)s AND {COMMITTED} ORDER BY xid, id LIMIT %(limit)s"""
IS_MESSAGE = "SELECT 1 FROM messages WHERE id = %s"
# The primary key, backwards, until the page is full.
_MESSAGES_WANTED = """
FROM messages WHERE (%(owner)s::text IS NULL OR owner = %(owner)s)
    AND (%(schedule_id)s::text IS NULL OR schedule_id = %(schedule_id)s)
    AND (%(since)s::timestamptz IS NULL OR at >= %(since)s) AND (%(until)s::timestamptz IS NULL OR at < %(until)s)
    AND (%(before)s::bigint IS NULL OR id < %(before)s)"""
LIST_MESSAGES = f"SELECT {MESSAGE} {_MESSAGES_WANTED} ORDER BY id DESC LIMIT %(limit)s"
COUNT_MESSAGES = f"SELECT count(*) FROM (SELECT 1 {_MESSAGES_WANTED} LIMIT %(limit)s) AS found"
LAST_MESSAGE = f"SELECT id FROM messages WHERE {COMMITTED} ORDER BY xid DESC, id DESC LIMIT 1"
# The primary key of subscriptions.
SUBSCRIPTIONS = f"SELECT {', '.join(Subscription._fields)} FROM subscriptions"
_HELD = tuple(name for name in Subscription._fields if name != "subscriber")
PUT_SUBSCRIPTION = f"""
INSERT INTO subscriptions (subscriber, {", ".join(_HELD)}, created_at, updated_at)
VALUES (%(subscriber)s, {", ".join(f"%({name})s" for name in _HELD)}, %(now)s, %(now)s)
ON CONFLICT (subscriber) DO UPDATE SET {", ".join(f"{n} = excluded.{n}" for n in _HELD)}, updated_at = %(now)s"""
