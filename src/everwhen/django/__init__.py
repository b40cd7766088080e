"""everwhen in a Django project: add `everwhen.django` to INSTALLED_APPS, and declare schedules in `tasks.py`.

`from everwhen.django import scheduler` is the one scheduler of the project. It is made from the settings when it is
first imported, and opens its database when it is first asked; `manage.py everwhen up` runs it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from everwhen.errors import SchedulerError

if TYPE_CHECKING:
    from everwhen.django.asgi import mount_api
    from everwhen.scheduler.scheduler import Scheduler

    scheduler: Scheduler

__all__ = ["get_scheduler", "mount_api", "scheduler"]


@cache
def get_scheduler() -> Scheduler:
    """Return the scheduler of the project, which `scheduler` is as well."""
    try:
        from everwhen.django.configuration import make_scheduler
    except ModuleNotFoundError as error:
        if error.name != "django":
            raise
        raise SchedulerError(
            "everwhen.django needs Django; install it with: pip install 'everwhen[django]'"
        ) from None
    return make_scheduler()


def __getattr__(name: str) -> Any:
    if name == "scheduler":
        return get_scheduler()
    if name == "mount_api":
        from everwhen.django.asgi import mount_api

        return mount_api
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
