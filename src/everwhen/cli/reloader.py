"""Reloads of a running node: on SIGHUP, with `--watch` when a file changes, and after another process reloaded.

One thread reads and applies, so that two requests never overlap; requests that arrive meanwhile are merged into one.
A second thread watches directories, not files, because editors replace a file by renaming another over it. What
another process loaded (`everwhen config reload`, a second scheduler) is already in the database: the node then reads
anew only what it runs with itself, such as its workflows. A worker never applies a configuration.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial

from everwhen.cli.configuration import show_warnings
from everwhen.cli.terminal import print_lines, secho
from everwhen.config.read import Configuration
from everwhen.config.settings import Settings
from everwhen.engine.loop import CommitSleep, Wake, low_priority
from everwhen.errors import ConfigError, SchedulerError
from everwhen.model.declare import Declarations
from everwhen.operations.apply import Applied, config_revision, reload
from everwhen.runtime import Changes, Runtime

SETTLED = 300  # milliseconds without a further change
LOOK = 1_000  # milliseconds
MOST_NAMED = 5


class Reloader:
    """Keeps a running node in step with its files."""

    def __init__(
        self,
        runtime: Runtime,
        read: Callable[[Configuration], Configuration],
        current: Configuration,
        on_taken: Callable[[Configuration], None],
        *,
        applies: bool = True,
        changes: Changes | None = None,
    ) -> None:
        self._runtime = runtime
        self._on_taken = on_taken
        self._applies = applies
        self._read = read
        self._current = current
        self._newest = current  # read last, perhaps refused
        self._seen = 0  # the newest revision of the configuration that was read from the database
        self._tried = current.stamps
        self._is_asked = False
        self._wake = Wake()
        self._sleep = CommitSleep(self._wake, changes)
        self._stopped = threading.Event()
        self._moved = threading.Event()  # set when the watched directories change, and at the stop
        self._actor = ""
        self._turn = threading.Lock()  # one reload at a time, whichever thread requests it
        self._threads: list[threading.Thread] = []

    @property
    def current(self) -> Configuration:
        """Return the configuration in force."""
        return self._current

    def start(self, *, watch: bool = False) -> None:
        loops = [self._reload, self._watch] if watch else [self._reload]
        for loop in loops:
            name = f"everwhen{loop.__name__.replace('_', '-')}"
            thread = threading.Thread(target=loop, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def ask(self, actor: str) -> None:
        """Request a reload soon; safe in a signal handler."""
        self._actor = actor
        self._is_asked = True
        self._wake.set()

    def take(self, actor: str, *, may_remove_most: bool = False) -> Applied:
        """Reload now and return what changed; raise ConfigError and change nothing when the file is refused."""
        with self._turn, _yielding():
            applied = reload(self._runtime, self._declared, actor=actor, may_remove_most=may_remove_most)
            self._be(self._newest)
        secho(f"reloaded: {spelled(applied)}", err=True, bold=True, event="config.reloaded")
        return applied

    def look(self) -> Declarations:
        """Return what the file declares now, without applying it."""
        with self._turn:
            return self._read(self._current).declared

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()
        self._moved.set()
        for thread in self._threads:
            thread.join(10)

    def _reload(self) -> None:
        while not self._stopped.is_set():
            self._sleep.begin()
            if self._is_asked:
                self._is_asked = False
                self._try(self._take)
            elif (digest := self._loaded_external()) is not None:
                self._try(partial(self._follow, digest))
            if not self._stopped.is_set():
                self._sleep.sleep(LOOK / 1_000, is_idle=True)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            with self._turn, _yielding():
                step()
        except ConfigError as error:
            message = f"reload refused, the old configuration stays in force:\n{error}"
            print_lines(message, err=True, fg="red", event="config.refused")
        except SchedulerError as error:  # the database is unavailable; the next request may succeed
            print_lines(f"reload failed: {error}", err=True, fg="red", event="config.refused")

    def _take(self) -> None:
        if self._applies:
            said = spelled(reload(self._runtime, self._declared, actor=self._actor))
        else:
            self._declared()
            said = "plugins and workflows as the file has them"
        self._be(self._newest)
        secho(f"reloaded: {said}", err=True, bold=True, event="config.reloaded")

    def _loaded_external(self) -> str | None:
        """Return the digest that another process loaded since the last check, if this node runs with another one."""
        try:
            revision, digest = config_revision(self._runtime)
        except SchedulerError:  # the scheduler loop reports it
            return None
        is_new, self._seen = revision != self._seen, revision
        return digest if is_new and digest != self._current.declared.digest else None

    def _follow(self, digest: str) -> None:
        if self._declared().digest == digest:
            self._be(self._newest)
            secho("another process reloaded the configuration; this node uses it now", err=True)
        else:
            message = "another process reloaded a configuration that is not the one in this node's file"
            secho(message, err=True, fg="yellow")

    def _declared(self) -> Declarations:
        self._tried = self._newest.stamps_now  # also for a file that is refused
        self._newest = self._read(self._current)
        self._tried = self._newest.stamps
        show_warnings(self._newest.warnings)
        return self._newest.declared

    def _be(self, configuration: Configuration) -> None:
        """Make a configuration current: the node takes over what is not in the database."""
        before, self._current = self._current, configuration
        for name in (each.name for each in fields(Settings)):
            if getattr(before.settings, name) != getattr(configuration.settings, name):
                secho(f"service.{name} changed: it takes effect at the next start", err=True, fg="yellow")
        if before.directories != configuration.directories:
            self._moved.set()
        self._on_taken(configuration)

    def _watch(self) -> None:
        from watchfiles import watch

        while not self._stopped.is_set():
            self._moved.clear()
            watched = self._current.directories
            for _ in watch(
                *watched,
                watch_filter=None,  # with a filter, a database next to the file, always changing, hides the timeout
                stop_event=self._moved,
                debounce=SETTLED,
                rust_timeout=LOOK,
                yield_on_timeout=True,
                recursive=False,
                raise_interrupt=False,
            ):
                # Every wake-up compares the stamps: a file may have changed before the watching began, and the
                # database, which may be in the same directory, changes all the time.
                if self._tried != self._newest.stamps_now:
                    self.ask("watch")
                if watched != self._current.directories:  # a new directory matches a pattern
                    break


@contextmanager
def _yielding() -> Iterator[None]:
    """Let the scheduler loop run during a reload: reading a large file keeps the interpreter busy.

    With low priority the loop gets the interpreter back fifty times sooner than otherwise. And a file of 10,000
    schedules is a million objects without a reference cycle. A garbage collection over all of those would stop every
    thread for a quarter of a second, so they are excluded from collection, during the reading and afterwards.
    """
    with low_priority():
        try:
            yield
        finally:
            gc.freeze()


def spelled(applied: Applied) -> str:
    """Summarise what a configuration changed."""
    news = (
        ("new", applied.created),
        ("changed", applied.changed),
        ("removed", applied.removed),
        ("switched on or off", applied.switched),
    )
    found = [f"{len(ids)} {word}" for word, ids in news if ids]
    if applied.sections:
        found.append(f"{', '.join(applied.sections[:MOST_NAMED])} changed")
    return ", ".join(found) or "nothing changed"
