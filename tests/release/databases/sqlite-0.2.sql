BEGIN TRANSACTION;
CREATE TABLE alert_deliveries (
    id INTEGER PRIMARY KEY,
    delivery_id TEXT NOT NULL UNIQUE,
    rule TEXT NOT NULL,
    kind TEXT NOT NULL,
    class TEXT,
    owner TEXT,
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    next_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    delivered_at INTEGER,
    given_up_at INTEGER
);
CREATE TABLE alert_notices (
    alert INTEGER NOT NULL,
    rule TEXT NOT NULL,
    state TEXT NOT NULL,
    due_at INTEGER,
    reported_at INTEGER,
    is_flapping INTEGER NOT NULL DEFAULT 0,
    delivery INTEGER,
    PRIMARY KEY (alert, rule)
) WITHOUT ROWID;
CREATE TABLE alert_silences (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    until INTEGER NOT NULL,
    actor TEXT,
    created_at INTEGER NOT NULL
);
CREATE TABLE alerts (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    class TEXT NOT NULL,
    severity TEXT NOT NULL,
    state TEXT NOT NULL,
    since INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    resolved_at INTEGER,
    count INTEGER NOT NULL DEFAULT 1,
    schedule_id TEXT,
    uid TEXT,
    owner TEXT,
    "group" TEXT,
    evidence TEXT NOT NULL DEFAULT '{}',
    acked_at INTEGER,
    acked_by TEXT
);
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
INSERT INTO "audit_events" VALUES(1,'scheduler.started',1795042786638792,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,'{"node": "everwhen-e347b7e0ad24dee5", "version": "0.2.0", "last_heartbeat_at": null}',NULL);
INSERT INTO "audit_events" VALUES(2,'schedule.created',1795042786653723,'tick','561a08ed8866',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": 1795042786000000}',NULL);
INSERT INTO "audit_events" VALUES(3,'schedule.created',1795042786653723,'nightly','4de326faecf2',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": null}',NULL);
INSERT INTO "audit_events" VALUES(4,'schedule.created',1795042786653723,'once','3796a6df1b7d',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": null}',NULL);
INSERT INTO "audit_events" VALUES(5,'schedule.created',1795042786653723,'held','36e5d363dd11',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": 1795042786000000}',NULL);
INSERT INTO "audit_events" VALUES(6,'schedule.created',1795042786653723,'retried','e1d5b6baf7b2',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": 1795042786000000}',NULL);
INSERT INTO "audit_events" VALUES(7,'schedule.created',1795042786653723,'words','740bf42df59d',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": 1795042786000000}',NULL);
INSERT INTO "audit_events" VALUES(8,'schedule.created',1795042786653723,'paused','6ed889c27a9f',NULL,NULL,NULL,1,NULL,'config','{"revision": 1, "anchor_at": 1795046387000000}',NULL);
INSERT INTO "audit_events" VALUES(9,'config.reloaded',1795042786653723,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,'{"digest": "23915a02bdf5e5fc", "created": {"count": 7, "ids": ["tick", "nightly", "once", "held", "retried", "words", "paused"]}, "changed": {"count": 0, "ids": []}, "removed": {"count": 0, "ids": []}, "switched": {"count": 0, "ids": []}}',NULL);
INSERT INTO "audit_events" VALUES(10,'token.created',1795042786744486,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,'{"token_id": "tok_4778896233af", "name": "first", "role": "admin"}',NULL);
INSERT INTO "audit_events" VALUES(11,'schedule.done',1795042788001515,'once','3796a6df1b7d',NULL,NULL,'done',1,NULL,NULL,'{}',NULL);
INSERT INTO "audit_events" VALUES(12,'schedule.paused',1795042789619615,'paused','6ed889c27a9f',NULL,NULL,'paused',1,NULL,NULL,'{"by": "token:local", "note": "holidays", "until": null}',NULL);
INSERT INTO "audit_events" VALUES(13,'token.created',1795042790347651,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,'{"token_id": "tok_db304b855de7", "name": "kept", "role": "viewer"}',NULL);
INSERT INTO "audit_events" VALUES(14,'scheduler.stopped',1795042790631382,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,'{"node": "everwhen-e347b7e0ad24dee5", "version": "0.2.0", "jobs_still_running": 0}',NULL);
CREATE TABLE budgets (
    key TEXT PRIMARY KEY,
    unit TEXT,
    reserved INTEGER NOT NULL DEFAULT 0,
    day INTEGER NOT NULL DEFAULT 0,
    day_cost INTEGER NOT NULL DEFAULT 0,
    month INTEGER NOT NULL DEFAULT 0,
    month_cost INTEGER NOT NULL DEFAULT 0,
    hour INTEGER NOT NULL DEFAULT 0,
    caught_up_hour INTEGER NOT NULL DEFAULT 0,
    caught_up_day INTEGER NOT NULL DEFAULT 0,
    caught_up_reserved INTEGER NOT NULL DEFAULT 0,
    caught_up_day_cost INTEGER NOT NULL DEFAULT 0,
    caught_up_month_cost INTEGER NOT NULL DEFAULT 0,
    total_cost INTEGER NOT NULL DEFAULT 0,
    announced TEXT NOT NULL DEFAULT '',
    refill_at INTEGER
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
, sections TEXT);
INSERT INTO "config_revisions" VALUES(1,1795042786658671,'config','23915a02bdf5e5fc',NULL,'{"tick":"everwhen.yaml:5","nightly":"everwhen.yaml:6","once":"everwhen.yaml:7","held":"everwhen.yaml:8","retried":"everwhen.yaml:9","words":"everwhen.yaml:10","paused":"everwhen.yaml:11"}','{}');
CREATE TABLE event_cursors (
    name TEXT PRIMARY KEY,
    event_row INTEGER NOT NULL,
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
CREATE TABLE everwhen_migrations (
  number INTEGER NOT NULL,
  name TEXT NOT NULL,
  step TEXT NOT NULL CHECK (step IN ('before', 'after')),
  applied_at INTEGER NOT NULL,
  PRIMARY KEY (number, step)
) WITHOUT ROWID
;
INSERT INTO "everwhen_migrations" VALUES(1,'the ledger','before',1795042786551871);
INSERT INTO "everwhen_migrations" VALUES(2,'release 0.2','before',1795042786551871);
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
INSERT INTO "job_output" VALUES('sched-561a08ed8866-n1-rc0',1,'stdout',0,1795042786782035,X'746F636B0A');
CREATE TABLE job_tokens (
    hash TEXT PRIMARY KEY,
    job_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    "group" TEXT NOT NULL,
    owner TEXT,
    depth INTEGER NOT NULL,
    max_depth INTEGER NOT NULL,
    limits TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
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
, cost_reserved TEXT, cost_amount INTEGER, cost_unit TEXT, cost_source TEXT);
INSERT INTO "jobs" VALUES(1,'sched-740bf42df59d-n1-rc0',6,'740bf42df59d','words',1,1,0,'schedule','succeeded',1795042786000000,1795042786000000,NULL,1,1,0,1,0,NULL,'default',NULL,NULL,NULL,NULL,'own',1795042786756068,1795042786756068,1795043386756068,1795042786756068,1795042786756068,NULL,'scheduler',1,0,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(2,'sched-561a08ed8866-n1-rc0',1,'561a08ed8866','tick',1,1,0,'schedule','succeeded',1795042786000000,1795042786000000,NULL,1,1,0,1,0,NULL,'default',NULL,NULL,NULL,NULL,'own',1795042786756068,1795042786764288,1795046386764288,1795042786782008,1795042786782008,NULL,'everwhen-e347b7e0ad24dee5',1,0,NULL,NULL,'tock',NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,'sched-e1d5b6baf7b2-n1-rc0',5,'e1d5b6baf7b2','retried',1,1,0,'schedule','failed',1795042786000000,1795042786000000,NULL,1,1,0,1,0,NULL,'default',NULL,NULL,NULL,NULL,'own',1795042786756068,1795042786764288,1795046386764288,1795042786790813,1795042786790813,NULL,'everwhen-e347b7e0ad24dee5',1,0,NULL,'exit code 1',NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(4,'sched-e1d5b6baf7b2-n1-rc1',5,'e1d5b6baf7b2','retried',1,1,1,'retry','queued',1795042786000000,1795042786000000,1795064386790813,1,0,0,1,0,NULL,'default',NULL,NULL,NULL,NULL,'own',1795042786790813,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,1795064386790813,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(5,'sched-3796a6df1b7d-n1-rc0',3,'3796a6df1b7d','once',1,1,0,'schedule','succeeded',1795042788000000,1795042788000000,NULL,1,1,0,1,0,NULL,'default',NULL,NULL,NULL,NULL,'own',1795042788001515,1795042788004164,1795046388004164,1795042788012411,1795042788012411,NULL,'everwhen-e347b7e0ad24dee5',1,0,NULL,NULL,'',NULL,NULL,0,NULL,NULL,NULL,NULL);
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
INSERT INTO "messages" VALUES(1,'065e7ca9-1851-5901-88d1-83dc6a100722',1795042786756068,'words','740bf42df59d',NULL,'sched-740bf42df59d-n1-rc0','{"actor": null, "content": {"structured": {}, "text": "still here"}, "context": {"timezone": "UTC"}, "correlation": {"dedupe_key": "740bf42df59d:n1", "trace_id": "ae7e116dd511de497951d041e2a953d0"}, "event_id": "065e7ca9-1851-5901-88d1-83dc6a100722", "occurred_at": "2026-11-18T22:59:46.756068Z", "schema_version": "1.0", "source": {"channel": "scheduler", "connector_id": "words", "message_id": "sched-740bf42df59d-n1-rc0", "thread_id": "family"}}');
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
, migration INTEGER);
INSERT INTO "nodes" VALUES('everwhen-e347b7e0ad24dee5','0.2.0',1,1,1795042786629688,1795042790632654,0,1795042790632654,NULL,2);
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
INSERT INTO "quiet_hours_policies" VALUES('nearly-always','nearly-always','config','{"name": "nearly-always", "timezone": "UTC", "windows": [[0, 1438, 127]], "dates": [], "action": "defer"}',1795042786658671,1795042786658671);
CREATE TABLE requests (
    id INTEGER PRIMARY KEY,
    request_id TEXT NOT NULL UNIQUE,
    action TEXT NOT NULL,
    schedule_id TEXT NOT NULL,
    body TEXT NOT NULL,
    actor TEXT,
    created_at INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'done', 'refused')),
    ended_at INTEGER,
    job_id TEXT,
    reason TEXT,
    error TEXT,
    CHECK ((status = 'waiting') = (ended_at IS NULL))
);
CREATE TABLE schedule_costs (
    uid TEXT PRIMARY KEY,
    reports TEXT NOT NULL,
    unreported INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE schedule_revisions (
    uid TEXT NOT NULL,
    revision INTEGER NOT NULL,
    schedule_id TEXT NOT NULL,
    in_force_at INTEGER NOT NULL,
    anchor_at INTEGER,
    words TEXT NOT NULL, cause TEXT,
    PRIMARY KEY (uid, revision)
) WITHOUT ROWID;
INSERT INTO "schedule_revisions" VALUES('36e5d363dd11',1,'held',1795042786658671,1795042786000000,'{"trigger":{"every":"24h","seconds":86400},"timezone":"UTC","target":["command","{\"argv\":[\"true\"]}"],"quiet_hours_id":"nearly-always","timeout":3600000000}','created');
INSERT INTO "schedule_revisions" VALUES('3796a6df1b7d',1,'once',1795042786658671,NULL,'{"trigger":{"after":"1s","instant":1795042788},"timezone":"UTC","target":["command","{\"argv\":[\"true\"]}"],"timeout":3600000000}','created');
INSERT INTO "schedule_revisions" VALUES('4de326faecf2',1,'nightly',1795042786658671,NULL,'{"trigger":{"cron":"0 2 * * *"},"timezone":"Europe/Paris","target":["command","{\"argv\":[\"true\"]}"],"max_retries":3,"timeout":3600000000,"on_exhausted":"continue"}','created');
INSERT INTO "schedule_revisions" VALUES('561a08ed8866',1,'tick',1795042786658671,1795042786000000,'{"trigger":{"every":"1h","seconds":3600},"timezone":"UTC","target":["command","{\"argv\":[\"echo\",\"tock\"]}"],"catch_up":"run_once","timeout":3600000000}','created');
INSERT INTO "schedule_revisions" VALUES('6ed889c27a9f',1,'paused',1795042786658671,1795046387000000,'{"trigger":{"every":"1h","seconds":3600},"timezone":"UTC","target":["command","{\"argv\":[\"true\"]}"],"first_run":"after_interval","timeout":3600000000}','created');
INSERT INTO "schedule_revisions" VALUES('740bf42df59d',1,'words',1795042786658671,1795042786000000,'{"trigger":{"every":"1h","seconds":3600},"timezone":"UTC","target":["message","{\"text\":\"still here\",\"thread_id\":\"family\"}"]}','created');
INSERT INTO "schedule_revisions" VALUES('e1d5b6baf7b2',1,'retried',1795042786658671,1795042786000000,'{"trigger":{"every":"24h","seconds":86400},"timezone":"UTC","target":["command","{\"argv\":[\"false\"]}"],"max_retries":3,"retry_delay":21600000000,"timeout":3600000000,"on_exhausted":"continue"}','created');
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
, failed_slots INTEGER NOT NULL DEFAULT 0, numbers_skipped INTEGER NOT NULL DEFAULT 0, expect_at INTEGER, expect_met_at INTEGER, pings INTEGER NOT NULL DEFAULT 0);
INSERT INTO "schedules" VALUES(1,'561a08ed8866','tick',NULL,1,'active',1795042786000000,1795046386000000,1795046386000000,NULL,NULL,NULL,NULL,NULL,NULL,1,0,0,0,0,1,0,1,0,1795042786000000,1795042786756068,1795042786764288,1795042786782008,1795042786782008,'sched-561a08ed8866-n1-rc0',NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,'',NULL,NULL,'config','interval','1h','UTC','run_once',NULL,'{}','command',NULL,NULL,1795042786658671,1795042786658671,0,0,NULL,NULL,0);
INSERT INTO "schedules" VALUES(2,'4de326faecf2','nightly',NULL,1,'active',NULL,1795050000000000,1795050000000000,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,'',NULL,NULL,'config','cron','0 2 * * *','Europe/Paris','skip',NULL,'{}','command',NULL,NULL,1795042786658671,1795042786658671,0,0,NULL,NULL,0);
INSERT INTO "schedules" VALUES(3,'3796a6df1b7d','once',NULL,1,'done',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,0,0,0,0,1,0,1,0,1795042788000000,1795042788001515,1795042788004164,1795042788012411,1795042788012411,'sched-3796a6df1b7d-n1-rc0',NULL,NULL,NULL,NULL,NULL,0,NULL,'done',NULL,'',NULL,NULL,'config','one_shot','1s','UTC','run_once',NULL,'{}','command',NULL,NULL,1795042786658671,1795042786658671,0,0,NULL,NULL,0);
INSERT INTO "schedules" VALUES(4,'36e5d363dd11','held',NULL,1,'active',1795042786000000,1795129186000000,1795129186000000,1795042786000000,1795042786000000,'quiet_hours',1795042786756068,NULL,1795046280000000,0,0,0,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,'',NULL,NULL,'config','interval','24h','UTC','skip','nearly-always','{}','command',NULL,NULL,1795042786658671,1795042786658671,0,0,NULL,NULL,0);
INSERT INTO "schedules" VALUES(5,'e1d5b6baf7b2','retried',NULL,1,'active',1795042786000000,1795129186000000,1795129186000000,NULL,NULL,NULL,NULL,NULL,NULL,1,1,0,1,1,0,1,0,1,1795042786000000,1795042786756068,1795042786764288,NULL,NULL,NULL,'exit code 1',NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,'',NULL,NULL,'config','interval','24h','UTC','skip',NULL,'{}','command',NULL,NULL,1795042786658671,1795042786658671,0,0,NULL,NULL,0);
INSERT INTO "schedules" VALUES(6,'740bf42df59d','words',NULL,1,'active',1795042786000000,1795046386000000,1795046386000000,NULL,NULL,NULL,NULL,NULL,NULL,1,0,0,0,0,1,0,1,0,1795042786000000,1795042786756068,1795042786756068,1795042786756068,1795042786756068,'sched-740bf42df59d-n1-rc0',NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,'',NULL,NULL,'config','interval','1h','UTC','skip',NULL,'{}','message',NULL,NULL,1795042786658671,1795042786658671,0,0,NULL,NULL,0);
INSERT INTO "schedules" VALUES(7,'6ed889c27a9f','paused',NULL,1,'paused',1795046387000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'token','holidays',NULL,'',NULL,NULL,'config','interval','1h','UTC','skip',NULL,'{}','command',NULL,NULL,1795042786658671,1795042786658671,0,0,NULL,NULL,0);
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
INSERT INTO "settings" VALUES('policies_version','b868693b6ce26757');
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
INSERT INTO "tokens" VALUES('tok_4778896233af','78bf8a610e558bb5d58a82f9a312cf70d49e09095fb4da9a638d323f6d663f8f','first','admin',NULL,'{}',1795042786744486,NULL,NULL,NULL);
INSERT INTO "tokens" VALUES('tok_db304b855de7','97e1ac183df48926b1fdb52ccbfc6444e733e493fcac8222ad1c1fc9f6cc0294','kept','viewer',NULL,'{}',1795042790347651,NULL,NULL,NULL);
CREATE TABLE webhooks (
    webhook_id TEXT PRIMARY KEY,
    token_id TEXT NOT NULL,
    owner TEXT,
    url TEXT NOT NULL,
    types TEXT NOT NULL,
    secret TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    created_by TEXT,
    event_row INTEGER NOT NULL,
    job_row INTEGER NOT NULL,
    open_jobs TEXT,
    off_at INTEGER,
    off_reason TEXT,
    delivery_id TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    failing_since INTEGER,
    next_at INTEGER,
    error TEXT,
    delivered_at INTEGER,
    delivered INTEGER NOT NULL DEFAULT 0,
    body TEXT
);
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
CREATE INDEX idx_schedules_pings ON schedules (uid) WHERE pings;
CREATE INDEX idx_schedules_expect ON schedules (expect_at) WHERE expect_at IS NOT NULL;
CREATE INDEX idx_schedules_status ON schedules (status) WHERE status <> 'active';
CREATE INDEX idx_schedules_waiting ON schedules (paused_by) WHERE paused_by = 'approval';
CREATE INDEX idx_schedules_over ON schedules (token_id) WHERE token_id IS NOT NULL AND status IN ('done', 'dead');
CREATE INDEX idx_revisions_before ON schedule_revisions (uid) WHERE cause IS NULL;
CREATE INDEX idx_requests_waiting ON requests (id) WHERE status = 'waiting';
CREATE INDEX idx_requests_of_schedule ON requests (schedule_id, id) WHERE status = 'waiting';
CREATE INDEX idx_budgets_refill ON budgets (refill_at) WHERE refill_at IS NOT NULL;
CREATE UNIQUE INDEX idx_alerts_open ON alerts (key) WHERE state = 'open';
CREATE INDEX idx_alerts_key ON alerts (key, since);
CREATE INDEX idx_notices_pending ON alert_notices (rule)
    WHERE state IN ('waiting', 'digest', 'gathered', 'resolving');
CREATE INDEX idx_notices_reported ON alert_notices (rule, due_at) WHERE state = 'reported';
CREATE INDEX idx_notices_delivery ON alert_notices (delivery) WHERE delivery IS NOT NULL;
CREATE INDEX idx_deliveries_pending ON alert_deliveries (rule, id) WHERE next_at IS NOT NULL;
CREATE INDEX idx_deliveries_rule ON alert_deliveries (rule, created_at);
CREATE INDEX idx_webhooks_token ON webhooks (token_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('messages',1);
COMMIT;
