"""The Celery application of `celery -A everwhen.queue_workers.celery worker -Q default`, on everwhen's configuration.

Messages are acknowledged late, and rejected when the process dies: then the message is delivered again. Its second
claim finds the job running or rescued, and has no effect.
"""

from __future__ import annotations

from celery import Celery

from everwhen.queue_workers import run_job, settings_here
from everwhen.queues.celery import ENTRY

app = Celery("everwhen", broker=settings_here().celery_broker or "redis://127.0.0.1:6379/1")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_default_queue="default",
    worker_prefetch_multiplier=1,  # a message reserved behind a long job could run on another worker
    broker_connection_retry_on_startup=True,
)
app.task(name=ENTRY)(run_job)
