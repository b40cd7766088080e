"""Settings for `rq worker -c everwhen.queue_workers.rq`: the Redis of everwhen's own configuration.

RQ imports this once, in the process that forks one for each job; so what a job needs is loaded already.
"""

from __future__ import annotations

from everwhen.queue_workers import settings_here
from everwhen.wiring import load_driver

_settings = settings_here()
load_driver(_settings.database)

REDIS_URL = _settings.redis or "redis://127.0.0.1:6379/0"
