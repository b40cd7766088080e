"""The worker of B16: jobs handed over to RQ on a separate Valkey, by everwhen or by RQ's own calls."""

import argparse
from time import perf_counter

from redis import Redis
from rq import Queue
from rq import __version__ as rq_version

from benchmarks.workers import runtimes
from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import accept_sizes, size_of
from everwhen.engine.dispatcher import BATCH, Dispatcher
from everwhen.engine.ticker import Ticker
from everwhen.model.schedule import Target
from everwhen.queues.rq import ENTRY, RqQueue
from everwhen.store.opened import store_of
from tests.servers.valkey import ValkeyServer
from tests.submissions import Submission, create_schedules

COUNT = (5_000, 1_000, 5)
NEVER = 86_400.0  # seconds until handed-over jobs are checked
TARGET = Target("command", '{"argv": ["true"]}')


class HandingOver:
    """Fires a slot of every schedule, then times the dispatcher until all are in the queue."""

    version = runtimes.VERSION

    def __init__(self, place: Place, url: str, count: int) -> None:
        self.count = count
        self.stack = runtimes.a_stack(place.fresh())
        self.redis = Redis.from_url(url)
        runtime = store_of(self.stack.runtime)
        self.dispatcher = Dispatcher(runtime.outbox, RqQueue(url), runtime.clock, patience=NEVER)
        self.rounds = 0

    def check(self) -> dict[str, str]:
        self.run(0, 1)
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        self.rounds += 1
        names = [f"r{self.rounds}-{number}" for number in range(self.count)]
        for start in range(0, self.count, runtimes.LOADED_AT_ONCE):
            batch = names[start : start + runtimes.LOADED_AT_ONCE]
            fields = {"every": "24h"}
            create_schedules(
                self.stack.runtime, [Submission(name, fields, TARGET, source="config") for name in batch]
            )
        ticker = Ticker(store_of(self.stack.runtime).slots, self.stack.runtime.clock)
        while ticker.step():
            pass
        began = perf_counter()
        while self.dispatcher.step():
            pass
        seconds = perf_counter() - began
        refuse_losses(self.redis, self.count)
        return {"job": (seconds, self.count)}


class Enqueueing:
    """The same calls by RQ alone, one at a time or many."""

    version = rq_version

    def __init__(self, url: str, count: int, *, at_once: int) -> None:
        self.count, self.at_once = count, at_once
        self.redis = Redis.from_url(url)
        self.queue = Queue("default", connection=self.redis)
        self.rounds = 0

    def check(self) -> dict[str, str]:
        self.run(0, 1)
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        self.rounds += 1
        ids = [f"sched-a1b2c3d4e5f6-n{self.rounds}-rc{number}" for number in range(self.count)]
        began = perf_counter()
        for start in range(0, self.count, self.at_once):
            self.put(ids[start : start + self.at_once])
        seconds = perf_counter() - began
        refuse_losses(self.redis, self.count)
        return {"job": (seconds, self.count)}

    def put(self, ids: list[str]) -> None:
        if len(ids) == 1:
            self.queue.enqueue(ENTRY, ids[0], 1, job_id=ids[0], job_timeout=660)
            return
        datas = [Queue.prepare_data(ENTRY, args=(name, 1), job_id=name, timeout=660) for name in ids]
        self.queue.enqueue_many(datas)


def refuse_losses(redis: Redis, count: int) -> None:
    """Check that all jobs are in the queue, and empty it for the next round."""
    found = redis.llen("rq:queue:default")
    redis.flushall()
    if found != count:
        raise AssertionError(f"{found} of {count} jobs are in the queue")


def a_task(name: str, place: Place, url: str, count: int) -> Task:
    match name:
        case "hand-over":
            return HandingOver(place, url, count)
        case "single":
            return Enqueueing(url, count, at_once=1)
        case _:
            return Enqueueing(url, count, at_once=BATCH)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("hand-over", "single", "many"))
    accept_sizes(parser)
    options = parser.parse_args()
    with ValkeyServer() as server, a_place() as place:
        answer_until_end(a_task(options.task, place, server.url, size_of(options).of(*COUNT)))


if __name__ == "__main__":
    main()
