"""What each table and view of the database holds, in one line; the reference shows this table."""

from __future__ import annotations

from collections.abc import Mapping

TABLES: Mapping[str, str] = {
    "schedules": "Every schedule with its state: the next slot, counters, the last run, a held slot, a pause.",
    "schedule_revisions": "Every revision of a schedule's definition, and from when on it is in force.",
    "jobs": "Every job: the slot that it runs, its attempt, where it runs, its times, its outcome and its cost.",
    "job_output": "What jobs printed, in pieces.",
    "limits": "Outstanding and running jobs and firings, counted per key that schedules share.",
    "circuit_breakers": "The state of every circuit breaker.",
    "circuit_breaker_transitions": "Every change of a circuit breaker, with its reason.",
    "audit_events": "The recorded events.",
    "plugin_state": "The durable state of plugins.",
    "messages": "The messages that schedules sent.",
    "subscriptions": "How far each subscriber has received the messages.",
    "quiet_hours_policies": "The quiet hours, of files and of the API.",
    "config_revisions": "Every configuration that was loaded: its digest, and where its schedules stand.",
    "nodes": "Every start of every process, with its heartbeat.",
    "tokens": "The tokens of the API, as hashes, with their roles and limits.",
    "sessions": "The sessions of browsers, as hashes.",
    "idempotency_keys": "The answers to requests with an `Idempotency-Key`, for 24 hours.",
    "settings": "Single values, such as the system switch and the number of the schema.",
    "job_tokens": "The tokens of running jobs of agents, as hashes.",
    "event_cursors": "How far each named listener has received the events.",
    "requests": "What programs requested inside their own transactions.",
    "budgets": "What budgets have used, per window.",
    "schedule_costs": "The last reported costs of a schedule, from which the next one is estimated.",
    "last_firings": "Until when a token with `min_interval` may not fire a schedule again.",
    "alerts": "Alerts, open and resolved.",
    "alert_notices": "Which rule reports which alert, and when.",
    "alert_deliveries": "The messages of alerts: waiting, delivered and given up.",
    "alert_silences": "What was silenced, and until when.",
    "webhooks": "The webhooks for events: how far each has got, and the delivery that has yet to arrive.",
    "outbox": "A view: jobs that are in a queue of RQ or Celery.",
    "schedule_entries": "A view of schedules with other names of columns and statuses, for programs that expect them.",
}
