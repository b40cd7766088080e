"""What every test may rely on: pinned time zone data, and real servers, started when first asked for."""

import logging
import os
import signal
import zoneinfo
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.environment import the_default_port_is_taken
from tests.id_orders import ordered_ids
from tests.open_connections import watch_connections
from tests.servers.fixtures import (
    everwhen_on_16,
    everwhen_on_18,
    no_server_is_left_behind,
    postgres,
    postgres16,
    postgres_url,
    upgraded_on_16,
    valkey,
    valkey_url,
)

watch_connections()

# Warnings are errors here, and in every Python that a test starts; but Celery may say that it does not like root.
os.environ.setdefault("PYTHONWARNINGS", "error,default:You're running the worker with superuser privileges")

# Most tests start processes; without bytecode each of them would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts background jobs with SIGINT ignored, and every process inherits that; the tests of Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every `everwhen up` serves its API: on a port of its own, or two tests could not run side by side.
os.environ.setdefault("EVERWHEN_API_PORT", "0")

# zoneinfo prefers the machine's own data; governments change it, and a test must not depend on when a machine
# was last updated. The tzdata package is pinned.
zoneinfo.reset_tzpath(to=())
zoneinfo.ZoneInfo.clear_cache()

# How long one example takes says more about the machine's other work than about the code.
settings.register_profile("everwhen", deadline=None)
settings.load_profile("everwhen")

__all__ = [
    "everwhen_on_16",
    "everwhen_on_18",
    "no_server_is_left_behind",
    "postgres",
    "postgres16",
    "postgres_url",
    "the_default_port_is_taken",
    "upgraded_on_16",
    "valkey",
    "valkey_url",
]


@pytest.fixture(autouse=True, scope="session")
def order_of_ids() -> Iterator[None]:
    with ordered_ids():
        yield


@pytest.fixture(autouse=True)
def restored_log() -> Iterator[None]:
    """Undo what a command that ran in this process did to the engine's logger."""
    engine = logging.getLogger("everwhen")
    before = (engine.handlers[:], engine.level, engine.propagate)
    yield
    engine.handlers[:], level, engine.propagate = before
    engine.setLevel(level)
