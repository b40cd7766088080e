"""The former name of `everwhen.queue_workers`.

Command lines (`rq worker -c everwhen.carried.rq`) and messages in queues use it, so it stays through 0.x.
"""

from everwhen.queue_workers import leave, run_job, settings_here

__all__ = ["leave", "run_job", "settings_here"]
