"""Nodes with `dispatch: rq-chain`, where RQ advances the schedules: what a node still does, which roles it refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from everwhen.cli.terminal import secho
from everwhen.config.settings import Settings
from everwhen.engine.chain_watch import ChainWatch
from everwhen.engine.loop import Loop, WakeableSleep
from everwhen.engine.wake import Wake
from everwhen.model.chained import RQ_CHAIN
from everwhen.model.link import Links
from everwhen.model.node import Role
from everwhen.wiring import Stack, open_links

WORKER = "rq worker --with-scheduler -c everwhen.queue_workers.rq QUEUE …"
LOOP_END = 10.0


def chain_links(role: Role, settings: Settings) -> Links | None:
    """Open the queue of the links when dispatch is rq-chain; refuse the roles that have nothing to do then."""
    if settings.dispatch != RQ_CHAIN:
        return None
    if role != "up":
        raise click.UsageError(
            f"service.dispatch is rq-chain, so there is no {role} to run: RQ's own workers decide and run everything; "
            f"start one with: {WORKER}"
        )
    return open_links(settings.redis)


def tell_of_workers() -> None:
    secho(f"schedules go on by RQ; start a worker with: {WORKER}", err=True)


@contextmanager
def watching(stack: Stack, settings: Settings) -> Iterator[None]:
    """Run the watch over chains during the block, in a process that has no scheduler loop."""
    if settings.dispatch != RQ_CHAIN:
        yield
        return
    links = open_links(settings.redis)
    watch, wake, ended = ChainWatch(stack.runtime, links), Wake(), threading.Event()
    sleep = WakeableSleep(wake, stack.changes)
    stack.runtime.wake_scheduler = stack.runtime.wake_workers = wake.set

    def step() -> None:
        sleep.begin()
        watch.step()
        if not ended.is_set():
            sleep.sleep(settings.check_interval)

    loop = Loop("chain", "chain watch", step, ended)
    loop.start()
    try:
        tell_of_workers()
        yield
    finally:
        ended.set()
        wake.set()
        loop.join(LOOP_END)
        links.close()
