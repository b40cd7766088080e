"""The two ways in which people run everwhen: a `Scheduler` in their program, and the process `everwhen up`.

Both take the same schedules, run the same functions, and are used through nothing but their public calls. The settings
are the defaults, or those that the guide names: more workers and, in a program, the garbage collector.
"""

import gc
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from benchmarks.workers.node_process import Node
from everwhen import Scheduler

TUNED_WORKERS = 100
ADDRESS = re.compile(r"API on (http://[^/\s]+)/api/v1/")


class Host(Protocol):
    """One of them, on one database."""

    def add(self, schedules: Sequence[dict[str, Any]]) -> None:
        """Create schedules, before the start."""

    def start(self) -> None:
        """Return when it is ready."""

    def stop(self) -> None: ...

    def firing(self) -> AbstractContextManager[None]:
        """Fire what is due, and run nothing, while the block runs."""


class InProgram:
    """A `Scheduler` in this process."""

    def __init__(self, url: str, _folder: Path, workers: int | None = None) -> None:
        keys: dict[str, Any] = {} if workers is None else {"max_workers": workers}
        self.url = url
        self.scheduler = Scheduler(url, name="bench", **keys)

    def add(self, schedules: Sequence[dict[str, Any]]) -> None:
        self.scheduler.add_many(schedules)  # type: ignore[arg-type]

    def start(self) -> None:
        self.scheduler.start()

    def stop(self) -> None:
        self.scheduler.stop()
        self.scheduler.close()

    @contextmanager
    def firing(self) -> Iterator[None]:
        """Have another scheduler of this program fire what is due; its workers take jobs of another queue."""
        with Scheduler(self.url, name="bench", queues=["none"]) as other:
            yield
        other.close()


class Up:
    """A process `everwhen up`, with its API, as people start it."""

    def __init__(self, url: str, folder: Path, workers: int | None = None) -> None:
        service: dict[str, Any] = {"database": url}
        if workers is not None:
            service["max_workers"] = workers
        self.config: dict[str, Any] = {"service": service, "api": {"port": 0}}
        self.folder = folder

    def add(self, schedules: Sequence[dict[str, Any]]) -> None:
        self.config["schedules"] = list(schedules)

    def start(self) -> None:
        self.node = self.started("up")

    @property
    def address(self) -> str:
        """Return the URL of its API, which it prints."""
        (found,) = ADDRESS.findall(self.node.log.read_text(encoding="utf-8"))
        return str(found)

    @contextmanager
    def firing(self) -> Iterator[None]:
        """Have a process that is only a scheduler fire what is due."""
        node = self.started("scheduler")
        try:
            yield
        finally:
            node.end()

    def started(self, *words: str) -> Node:
        path = self.folder / "everwhen.yaml"
        path.write_text(json.dumps(self.config))  # JSON is YAML
        return Node(words, path)

    def stop(self) -> None:
        self.node.end()


HOSTS: dict[str, type[InProgram] | type[Up]] = {"scheduler": InProgram, "up": Up}


def tune_collector() -> None:
    """Do what the guide advises for a program: `everwhen up` does it by itself."""
    gc.freeze()
    gc.set_threshold(20_000, *gc.get_threshold()[1:])
