"""The worker of B6: a thousand functions in every second; how late each begins, and whether any is missing."""

import argparse
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep, time
from typing import Any
from urllib.parse import urlsplit

from benchmarks.workers import calls, runaway
from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.hosts import HOSTS, TUNED_WORKERS, Host, Up, tune_collector
from benchmarks.workers.percentiles import percentile
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import Size, accept_sizes, size_of
from everwhen.version import __version__

SCHEDULES = (1_000, 1_000, 3)
SECONDS = (12, 2, 1)
LEADS = (3, 6, 12, 24)
LATE_SECONDS = 15  # how long those that are late are waited for: they count, with their lag
FIELDS = {"every": "1s", "if_running": "allow", "run": {"python": calls.named("note_run")}}
ATTACKED = {"id": "attacked", "every": "1d", "first_run": "after_interval", "run": {"command": ["true"]}}
LIMITS = {"max_schedules": 20, "min_interval": "10m", "fires_per_day": 100}
ADMIN = "EVERWHEN_ADMIN_TOKEN"


class EverySecond:
    """A host on an empty database in each round; it is ready before the first second that counts."""

    version = __version__

    def __init__(
        self, place: Place, folder: Path, host: str, *, workers: int | None, size: Size, is_attacked: bool
    ) -> None:
        self.place, self.folder = place, folder
        self.host, self.workers = HOSTS[host], workers
        self.count, self.seconds = size.of(*SCHEDULES), size.of(*SECONDS)
        self.leads = size.of(LEADS, LEADS, LEADS[2:])  # tests would rather wait than begin anew
        self.is_attacked = is_attacked
        self.rounds = 0
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        for lead in self.leads:
            self.rounds += 1
            notes = calls.Notes(self.folder, self.rounds)
            began = int(time()) + lead
            host = self.host(self.place.fresh(), self.folder, self.workers)
            host.add(self.schedules(began))
            host.start()
            try:
                if time() < began:
                    lags = self.watched(host, notes, began)
                    return {"lag p99": (percentile(lags, 99), 1)}
            finally:
                host.stop()
                notes.close()
        raise TimeoutError(f"it was not ready within {LEADS[-1]} s")

    def schedules(self, began: int) -> list[dict[str, Any]]:
        fields = {**FIELDS, "start_at": datetime.fromtimestamp(began, UTC).isoformat()}
        return [ATTACKED, *({"id": f"live{number}", **fields} for number in range(self.count))]

    def watched(self, host: Host, notes: calls.Notes, began: int) -> list[float]:
        ended, expected = began + self.seconds, self.count * self.seconds
        if self.is_attacked:
            assert isinstance(host, Up)
            with attack(host) as answers:
                sleep(ended - time())
        else:
            answers = {}
            sleep(ended - time())
        while len(lags := lags_of(notes, began, ended)) < expected and time() < ended + LATE_SECONDS:
            sleep(0.1)
        self.amounts = {"slots missed": expected - len(lags), "lag p99": percentile(lags, 99), **answers}
        return lags


def lags_of(notes: calls.Notes, began: int, ended: int) -> list[float]:
    found = [(float(slot), float(at)) for _, slot, at in notes.read()]
    return [at - slot for slot, at in found if began <= slot < ended]


@contextmanager
def attack(host: Up) -> Iterator[dict[str, float]]:
    """Let a token with limits create and trigger without end; how it was answered is known afterwards."""
    found: dict[str, float] = {}
    token = made_token(host.address)
    command = [sys.executable, "-m", runaway.__name__, host.address, "/schedules/attacked/trigger/"]
    environment = {**os.environ, runaway.TOKEN: token}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        yield found
        answered = json.loads(process.communicate()[0])
        within = {f"answered {one}": answered["answers"].get(one, 0) for one in ("create 201", "trigger 202")}
        refused = sum(answered["answers"].values()) - sum(within.values())
        found.update({**within, "refused a second": refused / answered["seconds"]})


def made_token(address: str) -> str:
    """Make a token with limits over REST, and return its secret."""
    body = json.dumps({"name": "wild", "role": "operator", "limits": LIMITS})
    headers = {"Authorization": f"Bearer {os.environ[ADMIN]}", "Content-Type": "application/json"}
    client = HTTPConnection(urlsplit(address).netloc)
    client.request("POST", "/api/v1/tokens/", body, headers)
    answer = client.getresponse()
    content = json.loads(answer.read())
    client.close()
    if answer.status != 201:
        raise RuntimeError(f"the token was answered {answer.status}: {content}")
    return str(content["token"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host", choices=tuple(HOSTS))
    parser.add_argument("settings", choices=("default", "tuned"))
    parser.add_argument("beside", choices=("nobody", "runaway"), nargs="?", default="nobody")
    accept_sizes(parser)
    options = parser.parse_args()
    workers = None
    if options.settings == "tuned":
        workers = TUNED_WORKERS
        tune_collector()
    os.environ[ADMIN] = secrets.token_urlsafe(32)
    with a_place() as place, TemporaryDirectory(prefix="everwhen-bench-") as folder:
        task = EverySecond(
            place,
            Path(folder),
            options.host,
            workers=workers,
            size=size_of(options),
            is_attacked=options.beside == "runaway",
        )
        answer_until_end(task)


if __name__ == "__main__":
    main()
