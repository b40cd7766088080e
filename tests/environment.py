"""The environment of processes that a test starts, and the default port, which no test may use."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from everwhen.config.settings import ApiSettings


def without_settings() -> dict[str, str]:
    """This process's environment less every setting of everwhen; but no API listens on the default port."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("EVERWHEN_")}
    return {**kept, "EVERWHEN_API_PORT": "0"}


@pytest.fixture(scope="session", autouse=True)
def the_default_port_is_taken() -> Iterator[None]:
    """As on a machine where everwhen runs: a test that uses the default port fails everywhere, not only there."""
    settings = ApiSettings()
    with closing(socket.socket()) as taken:
        with suppress(OSError):  # it is taken already, by another worker of this run or by an everwhen
            taken.bind((settings.host, settings.port))
            taken.listen()
        yield
