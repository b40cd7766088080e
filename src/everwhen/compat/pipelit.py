"""Pipelit's three functions: start a scheduled job, execute it, recover those that are overdue.

With `dispatch: rq-chain` nothing else is needed: an RQ worker calls `execute_scheduled_job`, which puts the next run
into the queue before this one begins. With any other dispatch they do the same work without a queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from everwhen.engine.chain import PATIENCE, Chain
from everwhen.engine.loop import patiently
from everwhen.model.queue import RQ_CHAIN, Link, Links
from everwhen.operations.stepping import decide_all_due, decide_schedule
from everwhen.wiring import open_links
from everwhen.worker_runtime import WorkerRuntime, open_worker_runtime

T = TypeVar("T")


def start_scheduled_job(database: str | None, schedule_id: str) -> bool:
    """Have an active schedule run at its next_run_at, at once if that is past; return False if that is already so.

    Without `rq-chain` an active schedule is already started: then its due slots are decided now.
    """
    return _at_worker_runtime(database, lambda worker: _start(worker, schedule_id))


def execute_scheduled_job(
    database: str | None, schedule_id: str, *, uid: str | None = None, at: int = 0
) -> int:
    """Decide the due slots of a schedule, enqueue its next run, and run the ready jobs here; return how many ran.

    A schedule that is not active does nothing. With `database` None the configuration names it, so that a queue need
    not contain secrets. Links in a queue have a `uid`, which distinguishes a schedule from another that was added
    later under the same id. While the database is unreachable, links wait, because no other process would do their
    work. `at` is the instant of the link: when the database's clock is a little behind RQ's, the link waits for that
    instant, too.
    """

    def execute() -> int:
        return _at_worker_runtime(
            database, lambda worker: _chain(worker).execute(worker.job_runner(), schedule_id, uid, at)
        )

    if uid is None:
        return execute()
    # What was done before the database went away is found done, and the rest is done.
    return patiently(execute, "a link waits for the database", patience=PATIENCE)


def recover_scheduled_jobs(database: str | None = None) -> int:
    """Start the overdue runs of active schedules; return how many schedules were overdue.

    Calling it again, or from several processes, changes nothing more. Schedules that are paused, done or dead are
    left alone.
    """
    return _at_worker_runtime(database, _recover)


def _at_worker_runtime(database: str | None, work: Callable[[WorkerRuntime], T]) -> T:
    worker = open_worker_runtime(database)
    try:
        return work(worker)
    finally:
        worker.close()


def _is_chained(worker: WorkerRuntime) -> bool:
    return worker.settings.dispatch == RQ_CHAIN


def _chain(worker: WorkerRuntime) -> Chain:
    links: Links = _NoLinks()
    if _is_chained(worker):
        links = open_links(worker.settings.redis)
        worker.stack.leave.append(links.close)
    return Chain(worker.runtime, links)


def _start(worker: WorkerRuntime, schedule_id: str) -> bool:
    if _is_chained(worker):
        return _chain(worker).start(schedule_id)
    return decide_schedule(worker.runtime, schedule_id) > 0


def _recover(worker: WorkerRuntime) -> int:
    return (
        _chain(worker).recover(worker.job_runner()) if _is_chained(worker) else decide_all_due(worker.runtime)
    )


class _NoLinks:
    """An empty queue of links: where schedulers watch the clock, links are not needed."""

    def put(self, link: Link, now: int) -> bool:
        return False

    def ping(self) -> None:
        return None

    def close(self) -> None:
        return None
