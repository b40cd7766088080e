"""From the settings of a Django project to its scheduler: `DATABASES`, `TIME_ZONE` and `EVERWHEN`.

Beside a SQLite file of Django the scheduler has a file of its own, `everwhen.db`. All its processes write under a lock
file that Django does not know of, and Django holds a transaction open for as long as a view takes: in one file they
would wait for each other, and slots would be late. On PostgreSQL both use one database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from django import conf
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, reset_queries

from everwhen.model.scalars import unknown
from everwhen.scheduler.options import SchedulerOptions
from everwhen.scheduler.scheduler import Scheduler

FILE = "everwhen.db"
DATABASE = "DATABASE"
# The keys of EVERWHEN beside its database are the options of a `Scheduler`, in capitals.
_KEYS = (DATABASE, *(name.upper() for name in SchedulerOptions.__annotations__ if name != "context"))
# Of Django's OPTIONS, what libpq takes in a URL; the others are Django's own.
_LIBPQ = (
    "channel_binding",
    "connect_timeout",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "options",
    "passfile",
    "service",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
)


def make_scheduler() -> Scheduler:
    """Return the scheduler of this project; its functions find usable database connections of Django."""
    settings = conf.settings
    given = read_options(getattr(settings, "EVERWHEN", {}))
    url = given.pop("database", None) or database_url(settings.DATABASES.get("default", {}))
    return Scheduler(url, **{"timezone": settings.TIME_ZONE, **given}, context=job_context)


def read_options(fields: Any) -> dict[str, Any]:
    """Return the options of the setting EVERWHEN; refuse what is unknown.

    >>> read_options({"NAME": "shop"})
    {'name': 'shop'}
    """
    if not isinstance(fields, Mapping):
        raise ImproperlyConfigured('EVERWHEN is a dictionary: EVERWHEN = {"NAME": "shop"}')
    for key in fields:
        if key not in _KEYS:
            raise ImproperlyConfigured(f'EVERWHEN["{key}"]: {unknown("key", str(key), _KEYS)}')
    return {key.lower(): value for key, value in fields.items()}


def database_url(fields: Mapping[str, Any]) -> str:
    """Return the database of the scheduler beside one of DATABASES.

    >>> database_url({"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/shop/db.sqlite3"})
    'sqlite:////srv/shop/everwhen.db'
    >>> database_url({"ENGINE": "django.db.backends.postgresql", "NAME": "shop", "USER": "ada", "PASSWORD": "a/b",
    ...     "HOST": "db", "PORT": 5433, "OPTIONS": {"sslmode": "require", "pool": True}})
    'postgresql://ada:a%2Fb@db:5433/shop?sslmode=require'
    """
    engine = str(fields.get("ENGINE", "")).rpartition(".")[2]
    if engine in ("sqlite3", "spatialite"):
        return _sqlite_url(str(fields.get("NAME", "")))
    if engine in ("postgresql", "postgis"):
        return _postgres_url({key: value for key, value in fields.items() if value})
    raise ImproperlyConfigured(
        f'everwhen needs SQLite or PostgreSQL, and DATABASES["default"] is "{fields.get("ENGINE", "")}"; '
        'name a database of its own: EVERWHEN = {"DATABASE": "sqlite:////srv/shop/everwhen.db"}'
    )


def _sqlite_url(name: str) -> str:
    if name == ":memory:" or "mode=memory" in name:
        return "sqlite://"
    path = name.removeprefix("file:").partition("?")[0] if name.startswith("file:") else name
    return f"sqlite:///{Path(path).resolve().with_name(FILE)}"


def _postgres_url(fields: Mapping[str, Any]) -> str:
    host, options = str(fields.get("HOST", "")), fields.get("OPTIONS", {})
    query = {key: options[key] for key in _LIBPQ if options.get(key) is not None}
    if host.startswith("/"):  # the folder of a socket
        query, host = {"host": host, **query}, ""
    who = ":".join(quote(str(fields[key]), safe="") for key in ("USER", "PASSWORD") if key in fields)
    address = f"[{host}]" if ":" in host else host
    where = f"{address}:{fields['PORT']}" if "PORT" in fields else address
    name = quote(str(fields.get("NAME", "")), safe="")
    return f"postgresql://{f'{who}@' if who else ''}{where}/{name}{f'?{urlencode(query)}' if query else ''}"


@contextmanager
def job_context() -> Iterator[None]:
    """Do around a job what Django does around a request: close connections that are too old or broken.

    On an event loop Django opens no connection itself, and refuses to close one.
    """
    if _is_on_event_loop():
        yield
        return
    reset_queries()
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
