"""Reloads while the service runs: on SIGHUP, and with `--watch` when a file of the configuration changes.

One thread reads and applies, so that two requests never overlap; requests that arrive meanwhile become one more. A
second thread watches directories, not files: editors replace a file by renaming another over it.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import click

from everwhen.cli.configuration import show_warnings
from everwhen.config.files import stamp_of
from everwhen.config.read import Configuration
from everwhen.config.settings import Settings
from everwhen.errors import ConfigError, SchedulerError
from everwhen.model.declared import Declarations
from everwhen.operations.apply import Applied
from everwhen.operations.reload import reload
from everwhen.ports.house import House

SETTLED = 300  # milliseconds without a further change
LOOK = 1_000  # milliseconds
SHARE = 0.0005  # seconds
_NEXT_START = "takes effect at the next start"


class Reloader:
    """Keeps a running service at what its files say."""

    def __init__(
        self,
        house: House,
        read: Callable[[Configuration], Configuration],
        current: Configuration,
        on_taken: Callable[[Configuration], None],
    ) -> None:
        self._house = house
        self._on_taken = on_taken
        self._read = read
        self._current = current
        self._tried = current.stamps
        self._asked = threading.Event()
        self._stopped = threading.Event()
        self._moved = threading.Event()  # other directories are to be watched, or none
        self._actor = ""
        self._threads: list[threading.Thread] = []

    def start(self, *, watch: bool = False) -> None:
        loops = [self._reload, self._watch] if watch else [self._reload]
        for loop in loops:
            thread = threading.Thread(
                target=loop, name=f"everwhen{loop.__name__.replace('_', '-')}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def ask(self, actor: str) -> None:
        """Reload soon; safe in a signal handler."""
        self._actor = actor
        self._asked.set()

    def stop(self) -> None:
        self._stopped.set()
        self._asked.set()
        self._moved.set()
        for thread in self._threads:
            thread.join(10)

    def _reload(self) -> None:
        while self._asked.wait() and not self._stopped.is_set():
            self._asked.clear()
            try:
                with _yielding():
                    applied = reload(self._house, self._declared, actor=self._actor)
                    self._on_taken(self._current)
                self._tell(applied)
            except ConfigError as error:
                click.secho("reload refused, the old configuration goes on:", err=True, fg="red", bold=True)
                click.secho(str(error), err=True, fg="red")
            except SchedulerError as error:  # the database; the next request may find it
                click.secho(f"reload failed: {error}", err=True, fg="red")

    def _declared(self) -> Declarations:
        self._tried = {path: stamp_of(path) for path in self._tried}  # of a file that is refused, too
        configuration = self._read(self._current)
        self._tried = configuration.stamps
        show_warnings(configuration.warnings)
        for name in _other_settings(self._current.settings, configuration.settings):
            click.secho(f"service.{name} changed: it {_NEXT_START}", err=True, fg="yellow")
        before, self._current = self._current, configuration
        if before.directories != configuration.directories:
            self._moved.set()
        return configuration.declared

    def _tell(self, applied: Applied) -> None:
        click.secho(f"reloaded: {spelled(applied)}", err=True, bold=True)

    def _watch(self) -> None:
        from watchfiles import watch

        while not self._stopped.is_set():
            self._moved.clear()
            for changes in watch(
                *self._current.directories,
                watch_filter=None,  # or a database beside the file, which changes all the time, would hide the timeout
                stop_event=self._moved,
                debounce=SETTLED,
                rust_timeout=LOOK,
                yield_on_timeout=True,
                recursive=False,
                raise_interrupt=False,
            ):
                # Every wake-up is a look: a file may have changed before the watching began.
                is_ours = any(self._is_ours(Path(path)) for _, path in changes)
                if is_ours or self._tried != {path: stamp_of(path) for path in self._tried}:
                    self.ask("watch")

    def _is_ours(self, path: Path) -> bool:
        """Not the database, which may lie beside the file."""
        is_yaml = path.suffix in (".yaml", ".yml") and not path.name.startswith(".")
        return is_yaml or path.name == self._current.files[0].path.name


@contextmanager
def _yielding() -> Iterator[None]:
    """Reading a large file keeps the interpreter busy: the loop gets it back ten times as soon as otherwise.

    And a file of 10,000 schedules is a million objects without a cycle among them. Looking through all of those for
    garbage would stop every thread for a quarter of a second, so nobody looks while it is read, nor later.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SHARE))
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        sys.setswitchinterval(before)


def _other_settings(before: Settings, after: Settings) -> list[str]:
    return [each.name for each in fields(Settings) if getattr(before, each.name) != getattr(after, each.name)]


def spelled(applied: Applied) -> str:
    """What a configuration did, in a few words."""
    news = (
        ("new", applied.created),
        ("changed", applied.changed),
        ("removed", applied.removed),
        ("switched on or off", applied.switched),
    )
    return ", ".join(f"{len(ids)} {word}" for word, ids in news if ids) or "nothing changed"
