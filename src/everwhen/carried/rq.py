"""The former name of `everwhen.queue_workers.rq`."""

from everwhen.queue_workers.rq import REDIS_URL

__all__ = ["REDIS_URL"]
