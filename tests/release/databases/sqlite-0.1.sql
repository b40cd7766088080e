BEGIN TRANSACTION;
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
INSERT INTO "audit_events" VALUES(1,'scheduler.started',1794997324317665,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,'{"node": "dacb121c1777c270", "version": "0.1.0", "last_heartbeat_at": null}',NULL);
INSERT INTO "audit_events" VALUES(2,'schedule.created',1794997324326200,'tick','497ee875e458',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": 1794997324000000}',NULL);
INSERT INTO "audit_events" VALUES(3,'schedule.created',1794997324326200,'nightly','35ee7650d063',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": null}',NULL);
INSERT INTO "audit_events" VALUES(4,'schedule.created',1794997324326200,'once','814019136046',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": null}',NULL);
INSERT INTO "audit_events" VALUES(5,'schedule.created',1794997324326200,'held','68deae2565ea',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": 1794997324000000}',NULL);
INSERT INTO "audit_events" VALUES(6,'schedule.created',1794997324326200,'retried','b99189c30f90',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": 1794997324000000}',NULL);
INSERT INTO "audit_events" VALUES(7,'schedule.created',1794997324326200,'words','0d1f9f50cc29',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": 1794997324000000}',NULL);
INSERT INTO "audit_events" VALUES(8,'schedule.created',1794997324326200,'paused','58c612675803',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": 1795000925000000}',NULL);
INSERT INTO "audit_events" VALUES(9,'config.reloaded',1794997324326200,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,'{"digest": "23915a02bdf5e5fc", "created": {"count": 7, "ids": ["tick", "nightly", "once", "held", "retried", "words", "paused"]}, "changed": {"count": 0, "ids": []}, "removed": {"count": 0, "ids": []}, "switched": {"count": 0, "ids": []}}',NULL);
INSERT INTO "audit_events" VALUES(10,'token.created',1794997325368393,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,'{"token_id": "tok_68c799749e64", "name": "first", "role": "admin"}',NULL);
INSERT INTO "audit_events" VALUES(11,'schedule.done',1794997326004854,'once','814019136046',NULL,NULL,'done',1,NULL,NULL,'{}',NULL);
INSERT INTO "audit_events" VALUES(12,'schedule.paused',1794997328757095,'paused','58c612675803',NULL,NULL,'paused',1,NULL,NULL,'{"by": "token:local", "note": "holidays", "until": null}',NULL);
INSERT INTO "audit_events" VALUES(13,'token.created',1794997330054652,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,'{"token_id": "tok_0e07ba821ea4", "name": "kept", "role": "viewer"}',NULL);
INSERT INTO "audit_events" VALUES(14,'scheduler.stopped',1794997330550963,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,'{"node": "dacb121c1777c270", "version": "0.1.0", "jobs_still_running": 0}',NULL);
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
CREATE TABLE circuit_breakers (
    key TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    failure_count INTEGER NOT NULL DEFAULT 0,
    opened_at INTEGER,
    probe_job_id TEXT
) WITHOUT ROWID;
CREATE TABLE config_revisions (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,
    digest TEXT NOT NULL,
    actor TEXT,
    places TEXT
);
INSERT INTO "config_revisions" VALUES(1,1794997324326692,'config','23915a02bdf5e5fc',NULL,'{"tick":"everwhen.yaml:5","nightly":"everwhen.yaml:6","once":"everwhen.yaml:7","held":"everwhen.yaml:8","retried":"everwhen.yaml:9","words":"everwhen.yaml:10","paused":"everwhen.yaml:11"}');
CREATE TABLE everwhen_migrations (
  number INTEGER NOT NULL,
  name TEXT NOT NULL,
  step TEXT NOT NULL CHECK (step IN ('before', 'after')),
  applied_at INTEGER NOT NULL,
  PRIMARY KEY (number, step)
) WITHOUT ROWID
;
INSERT INTO "everwhen_migrations" VALUES(1,'the ledger','before',1794997324257057);
CREATE TABLE idempotency_keys (
    token_id TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (token_id, key)
) WITHOUT ROWID;
CREATE TABLE job_output (
    job_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    stream TEXT NOT NULL,
    position INTEGER NOT NULL,
    at INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (job_id, attempt, stream, position)
) WITHOUT ROWID;
INSERT INTO "job_output" VALUES('sched-497ee875e458-n1-rc0',1,'stdout',0,1794997324898229,X'746F636B0A');
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
INSERT INTO "jobs" VALUES(1,'sched-497ee875e458-n1-rc0',1,'497ee875e458','tick',1,1,0,'schedule','succeeded',1794997324000000,1794997324000000,NULL,1,1,0,1,0,NULL,'default',NULL,NULL,NULL,NULL,'own',1794997324333573,1794997324348802,1795000924348802,1794997324394585,1794997324394585,NULL,'dacb121c1777c270',1,0,NULL,NULL,'tock',NULL,NULL,0);
INSERT INTO "jobs" VALUES(2,'sched-b99189c30f90-n1-rc0',5,'b99189c30f90','retried',1,1,0,'schedule','failed',1794997324000000,1794997324000000,NULL,1,1,0,1,0,NULL,'default',NULL,NULL,NULL,NULL,'own',1794997324333573,1794997324348802,1795000924348802,1794997324394983,1794997324394983,NULL,'dacb121c1777c270',1,0,NULL,'exit code 1',NULL,NULL,NULL,0);
INSERT INTO "jobs" VALUES(3,'sched-0d1f9f50cc29-n1-rc0',6,'0d1f9f50cc29','words',1,1,0,'schedule','succeeded',1794997324000000,1794997324000000,NULL,1,1,0,1,0,NULL,'default',NULL,NULL,NULL,NULL,'own',1794997324333573,1794997324333573,1794997924333573,1794997324334963,1794997324334963,NULL,'scheduler',1,0,NULL,NULL,NULL,NULL,NULL,0);
INSERT INTO "jobs" VALUES(4,'sched-b99189c30f90-n1-rc1',5,'b99189c30f90','retried',1,1,1,'retry','queued',1794997324000000,1794997324000000,1795018924394983,1,0,0,1,0,NULL,'default',NULL,NULL,NULL,NULL,'own',1794997324394983,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,1795018924394983,NULL,0);
INSERT INTO "jobs" VALUES(5,'sched-814019136046-n1-rc0',3,'814019136046','once',1,1,0,'schedule','succeeded',1794997326000000,1794997326000000,NULL,1,1,0,1,0,NULL,'default',NULL,NULL,NULL,NULL,'own',1794997326004854,1794997326009263,1795000926009263,1794997326020384,1794997326020384,NULL,'dacb121c1777c270',1,0,NULL,NULL,'',NULL,NULL,0);
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
INSERT INTO "messages" VALUES(1,'5d466d0b-31bb-5785-a31c-ded59762194a',1794997324334963,'words','0d1f9f50cc29',NULL,'sched-0d1f9f50cc29-n1-rc0','{"actor": null, "content": {"structured": {}, "text": "still here"}, "context": {"timezone": "UTC"}, "correlation": {"dedupe_key": "0d1f9f50cc29:n1", "trace_id": "300071f512e45eaa89f405e5f8d7a392"}, "event_id": "5d466d0b-31bb-5785-a31c-ded59762194a", "occurred_at": "2026-11-18T10:22:04.333573Z", "schema_version": "1.0", "source": {"channel": "scheduler", "connector_id": "words", "message_id": "sched-0d1f9f50cc29-n1-rc0", "thread_id": "family"}}');
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
INSERT INTO "nodes" VALUES('dacb121c1777c270','0.1.0',1,1,1794997324314787,1794997330557287,0,1794997330557287,NULL);
CREATE TABLE plugin_state (
    plugin TEXT PRIMARY KEY,
    state TEXT NOT NULL,
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
INSERT INTO "quiet_hours_policies" VALUES('nearly-always','nearly-always','config','{"name": "nearly-always", "timezone": "UTC", "windows": [[0, 1438, 127]], "dates": [], "action": "defer"}',1794997324326692,1794997324326692);
CREATE TABLE schedule_revisions (
    uid TEXT NOT NULL,
    revision INTEGER NOT NULL,
    schedule_id TEXT NOT NULL,
    in_force_at INTEGER NOT NULL,
    anchor_at INTEGER,
    words TEXT NOT NULL,
    PRIMARY KEY (uid, revision)
) WITHOUT ROWID;
INSERT INTO "schedule_revisions" VALUES('0d1f9f50cc29',1,'words',1794997324326692,1794997324000000,'{"trigger":{"every":"1h","seconds":3600},"timezone":"UTC","target":["message","{\"text\":\"still here\",\"thread_id\":\"family\"}"]}');
INSERT INTO "schedule_revisions" VALUES('35ee7650d063',1,'nightly',1794997324326692,NULL,'{"trigger":{"cron":"0 2 * * *"},"timezone":"Europe/Paris","target":["command","{\"argv\":[\"true\"]}"],"max_retries":3,"timeout":3600000000}');
INSERT INTO "schedule_revisions" VALUES('497ee875e458',1,'tick',1794997324326692,1794997324000000,'{"trigger":{"every":"1h","seconds":3600},"timezone":"UTC","target":["command","{\"argv\":[\"echo\",\"tock\"]}"],"catch_up":"run_once","timeout":3600000000}');
INSERT INTO "schedule_revisions" VALUES('58c612675803',1,'paused',1794997324326692,1795000925000000,'{"trigger":{"every":"1h","seconds":3600},"timezone":"UTC","target":["command","{\"argv\":[\"true\"]}"],"first_run":"after_interval","timeout":3600000000}');
INSERT INTO "schedule_revisions" VALUES('68deae2565ea',1,'held',1794997324326692,1794997324000000,'{"trigger":{"every":"24h","seconds":86400},"timezone":"UTC","target":["command","{\"argv\":[\"true\"]}"],"quiet_hours_id":"nearly-always","timeout":3600000000}');
INSERT INTO "schedule_revisions" VALUES('814019136046',1,'once',1794997324326692,NULL,'{"trigger":{"after":"1s","instant":1794997326},"timezone":"UTC","target":["command","{\"argv\":[\"true\"]}"],"timeout":3600000000}');
INSERT INTO "schedule_revisions" VALUES('b99189c30f90',1,'retried',1794997324326692,1794997324000000,'{"trigger":{"every":"24h","seconds":86400},"timezone":"UTC","target":["command","{\"argv\":[\"false\"]}"],"max_retries":3,"retry_delay":21600000000,"timeout":3600000000}');
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
INSERT INTO "schedules" VALUES(1,'497ee875e458','tick',NULL,1,'active',1794997324000000,1795000924000000,1795000924000000,NULL,NULL,NULL,NULL,NULL,NULL,1,0,0,0,0,1,0,1,0,1794997324000000,1794997324333573,1794997324348802,1794997324394585,1794997324394585,'sched-497ee875e458-n1-rc0',NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,'',NULL,NULL,'config','interval','1h','UTC','run_once',NULL,'{}','command',NULL,NULL,1794997324326692,1794997324326692);
INSERT INTO "schedules" VALUES(2,'35ee7650d063','nightly',NULL,1,'active',NULL,1795050000000000,1795050000000000,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,'',NULL,NULL,'config','cron','0 2 * * *','Europe/Paris','skip',NULL,'{}','command',NULL,NULL,1794997324326692,1794997324326692);
INSERT INTO "schedules" VALUES(3,'814019136046','once',NULL,1,'done',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,0,0,0,0,1,0,1,0,1794997326000000,1794997326004854,1794997326009263,1794997326020384,1794997326020384,'sched-814019136046-n1-rc0',NULL,NULL,NULL,NULL,NULL,0,NULL,'done',NULL,'',NULL,NULL,'config','one_shot','1s','UTC','run_once',NULL,'{}','command',NULL,NULL,1794997324326692,1794997324326692);
INSERT INTO "schedules" VALUES(4,'68deae2565ea','held',NULL,1,'active',1794997324000000,1795083724000000,1795083724000000,1794997324000000,1794997324000000,'quiet_hours',1794997324333573,NULL,1795046280000000,0,0,0,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,'',NULL,NULL,'config','interval','24h','UTC','skip','nearly-always','{}','command',NULL,NULL,1794997324326692,1794997324326692);
INSERT INTO "schedules" VALUES(5,'b99189c30f90','retried',NULL,1,'active',1794997324000000,1795083724000000,1795083724000000,NULL,NULL,NULL,NULL,NULL,NULL,1,1,0,1,1,0,1,0,1,1794997324000000,1794997324333573,1794997324348802,NULL,NULL,NULL,'exit code 1',NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,'',NULL,NULL,'config','interval','24h','UTC','skip',NULL,'{}','command',NULL,NULL,1794997324326692,1794997324326692);
INSERT INTO "schedules" VALUES(6,'0d1f9f50cc29','words',NULL,1,'active',1794997324000000,1795000924000000,1795000924000000,NULL,NULL,NULL,NULL,NULL,NULL,1,0,0,0,0,1,0,1,0,1794997324000000,1794997324333573,1794997324333573,1794997324334963,1794997324334963,'sched-0d1f9f50cc29-n1-rc0',NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,'',NULL,NULL,'config','interval','1h','UTC','skip',NULL,'{}','message',NULL,NULL,1794997324326692,1794997324326692);
INSERT INTO "schedules" VALUES(7,'58c612675803','paused',NULL,1,'paused',1795000925000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'token','holidays',NULL,'',NULL,NULL,'config','interval','1h','UTC','skip',NULL,'{}','command',NULL,NULL,1794997324326692,1794997324326692);
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    token_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "settings" VALUES('policies_version','8db08dfbe6357b6c');
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
INSERT INTO "tokens" VALUES('tok_0e07ba821ea4','ed1a7533fbdbc8257fc4ba848346f84d0341f6efdd077afd2586b2c079a1c139','kept','viewer',NULL,'{}',1794997330054652,NULL,NULL,NULL);
INSERT INTO "tokens" VALUES('tok_68c799749e64','d68f60f5be948c91eb2bc11c9859f487bd58ea132d70c1611d328bba28388f0c','first','admin',NULL,'{}',1794997325368393,NULL,NULL,NULL);
CREATE INDEX idx_schedules_next_run ON schedules (next_run_at) WHERE enabled;
CREATE INDEX idx_schedules_release ON schedules (release_at) WHERE release_at IS NOT NULL;
CREATE INDEX idx_schedules_held ON schedules (held_key, held_due_at) WHERE held_key IS NOT NULL;
CREATE INDEX idx_schedules_resume ON schedules (resume_at) WHERE resume_at IS NOT NULL;
CREATE UNIQUE INDEX idx_schedules_key ON schedules (key) WHERE key IS NOT NULL;
CREATE INDEX idx_schedules_token ON schedules (token_id) WHERE token_id IS NOT NULL;
CREATE INDEX idx_schedules_owner ON schedules (owner) WHERE owner IS NOT NULL;
CREATE INDEX idx_schedules_group ON schedules ("group") WHERE "group" IS NOT NULL;
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
CREATE INDEX idx_transitions_key ON circuit_breaker_transitions (key, id);
CREATE INDEX idx_audit_schedule ON audit_events (uid, slot_at);
CREATE INDEX idx_audit_owner ON audit_events (owner) WHERE owner IS NOT NULL;
CREATE INDEX idx_messages_at ON messages (at);
CREATE INDEX idx_idempotency_age ON idempotency_keys (created_at);
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('messages',1);
COMMIT;
