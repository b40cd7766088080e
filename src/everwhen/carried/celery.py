"""The former name of `everwhen.queue_workers.celery`."""

from everwhen.queue_workers.celery import app

__all__ = ["app"]
