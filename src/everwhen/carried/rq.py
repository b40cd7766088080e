"""Settings for `rq worker -c everwhen.carried.rq`: the Redis of everwhen's own configuration.

RQ imports this once, in the process that forks one for each job; so what a job needs is loaded already.
"""

from __future__ import annotations

from everwhen.carried import settings_here

REDIS_URL = settings_here().redis or "redis://127.0.0.1:6379/0"
