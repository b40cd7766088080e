"""Settings for `rq worker -c everwhen.queue_workers.rq`: the Redis of everwhen's own configuration.

RQ imports this module once, in the process that forks a child for each job; so the modules that a job needs are
already loaded.
"""

from __future__ import annotations

from everwhen.queue_workers import settings_here
from everwhen.wiring import load_driver

_settings = settings_here()
load_driver(_settings.database)

REDIS_URL = _settings.redis or "redis://127.0.0.1:6379/0"
