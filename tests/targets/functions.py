"""Functions that the tests of Python targets run."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from everwhen.model.outcome import Outcome
from everwhen.targets.python_function import PythonRun

gate = threading.Event()  # what does not want to end waits here
begun = threading.Event()
reported = threading.Event()  # set by what was told to end, and noticed
not_callable = 3


class Raised(BaseException):
    pass


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def about(run: PythonRun) -> dict[str, Any]:
    run.log("working on %s", run.payload)
    return {"job": run.job_id, "slot": run.slot_at, "attempt": run.attempt, "cancelled": bool(run.cancelled)}


def echoes(run: PythonRun) -> dict[str, Any]:
    return run.payload


def nothing() -> None:
    return None


def yields() -> Iterator[int]:
    yield 1


async def yields_and_awaits() -> AsyncIterator[int]:
    yield 1


def outcome() -> Outcome:
    return Outcome("failed", error="not today", is_final=True)


def prints() -> str:
    print("printed")
    return "text"


def raises(run: PythonRun) -> None:
    raise KeyError(f"no {run.payload['what']}")


def raises_base() -> None:
    raise Raised("from the base")


def raises_stop() -> None:
    raise StopIteration


def raises_unprintable() -> None:
    raise UnprintableError


def exits() -> None:
    sys.exit(3)


def exits_well() -> None:
    sys.exit()


def blocks() -> None:
    begun.set()
    gate.wait()


def looks(run: PythonRun) -> str:
    begun.set()
    if not run.cancelled.wait(30):
        return "never told"
    reported.set()
    return "told"


def sleeps() -> None:
    time.sleep(60)


def sleeps_on(run: PythonRun) -> None:
    """Sleep, although it could see that it is to end."""
    time.sleep(60)


def cleans_up() -> None:
    try:
        time.sleep(60)
    finally:
        print("cleaned up", flush=True)


async def awaits(run: PythonRun) -> str:
    await asyncio.sleep(0)
    return run.job_id


async def awaits_and_exits() -> None:
    sys.exit(4)


async def awaits_and_raises() -> None:
    raise ValueError("async")


async def cancels_itself() -> None:
    raise asyncio.CancelledError


async def awaits_for_ever() -> None:
    begun.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        reported.set()
        raise


async def ignores_the_cancel() -> None:
    begun.set()
    while not gate.is_set():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue


async def blocks_the_loop() -> None:
    begun.set()
    gate.wait()


def costly(run: PythonRun) -> str:
    run.report("0.1 USD")
    run.report(cost={"amount": 0.42, "currency": "USD"}, usage={"tokens": 7})
    return "worked"


def costly_failure(run: PythonRun) -> None:
    run.report(cost="0.2 USD", summary="not done")
    raise ValueError("no luck")


async def costly_async(run: PythonRun) -> None:
    run.report(cost="0.3 USD", summary="all done")
