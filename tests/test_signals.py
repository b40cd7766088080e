"""Signals reach a process however many come, and leave it as it was."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from everwhen.signals import LEFT_BY_SIGNAL, ProcessSignals

PROGRAM = """
import signal, threading
from everwhen.signals import ProcessSignals, wait_until

asked = threading.Event()
with ProcessSignals() as signals:
    signals.on(signal.SIGHUP, asked.set)
    stopped = signals.on_stop(lambda: print("killed", flush=True))
    print("ready", flush=True)
    wait_until(stopped)
    print("stopping", flush=True)
    {then}
print("asked" if asked.is_set() else "not asked", flush=True)
"""


@contextmanager
def program(then: str = "pass") -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM.format(then=then)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert line_of(process) == "ready"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("round_", range(3))
def test_a_process_hears_the_last_signal_of_thousands(round_: int) -> None:
    with program() as process:
        for _ in range(3_000):
            process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert [line_of(process), line_of(process)] == ["stopping", "asked"]
        assert process.wait(60) == 0


def test_the_second_stop_signal_kills_and_ends_a_process_that_waits() -> None:
    with program(then="threading.Event().wait()") as process:
        process.send_signal(signal.SIGINT)
        assert line_of(process) == "stopping"
        process.send_signal(signal.SIGTERM)
        assert line_of(process) == "killed"
        assert process.wait(60) == LEFT_BY_SIGNAL


def test_signals_mean_afterwards_what_they_meant_before() -> None:
    before = signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM)
    heard = threading.Event()
    with ProcessSignals() as signals:
        signals.on(signal.SIGHUP, heard.set)
        signals.on_stop(lambda: None)
        signal.raise_signal(signal.SIGHUP)
        assert heard.wait(60)
    assert (signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM)) == before
    assert not [thread for thread in threading.enumerate() if thread.name == "everwhen-signals"]
