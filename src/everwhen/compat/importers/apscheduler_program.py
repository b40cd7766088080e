"""A program that makes a scheduler of APScheduler, read in a process of its own, in which nothing begins.

Schedulers do not start there, and servers and event loops do not run: `start`, `run` and the like return at once, and
no socket listens. Where the program would go on for ever, or takes too long, it is read as far as it has come: what
follows is for its end.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from everwhen.compat.importers import Imported
from everwhen.compat.importers.apscheduler_jobs import import_apscheduler
from everwhen.errors import ConfigError

LIMIT = 30.0  # seconds
_LAST = 5.0  # of them: what the program has made until then is read
_SCHEDULERS = "apscheduler.schedulers."
_OF_SCHEDULERS = {"start", "shutdown", "pause", "resume"}
_RETURN = {  # by module: what may end
    "asyncio.base_events": ("BaseEventLoop.run_until_complete",),
    "asyncio.runners": ("run", "Runner.run"),
    "gevent.baseserver": ("BaseServer.start",),
}
_RUN = {  # what runs until the program ends
    "aiohttp.web": ("run_app",),
    "asyncio.base_events": ("BaseEventLoop.run_forever",),
    "flask.app": ("Flask.run",),
    "gevent.baseserver": ("BaseServer.serve_forever",),
    "hypercorn.run": ("run",),
    "socketserver": ("BaseServer.serve_forever",),
    "tornado.ioloop": ("IOLoop.start",),
    "twisted.internet.base": ("ReactorBase.run",),
    "uvicorn.main": ("run",),
    "uvicorn.server": ("Server.run",),
    "waitress": ("serve",),
    "werkzeug.serving": ("run_simple",),
}


def read_program(name: str, *, limit: float = LIMIT) -> Imported:
    """Import the jobs of the scheduler `module:scheduler`, from the present folder too."""
    if not all(name.partition(":")):
        raise ConfigError(f'{name!r} is not of the form "module:scheduler"')
    with tempfile.TemporaryDirectory(prefix="everwhen-import-") as folder:
        answer = Path(folder) / "answer"
        own = [sys.executable, "-m", __name__, name, str(answer), str(max(limit - _LAST, limit / 2))]
        process = subprocess.Popen(
            own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"{name} cannot be imported: it has not ended within {limit:g} s") from None
        finally:
            _end_session(process)
        if not answer.exists():
            raise ConfigError(f"{name} cannot be imported: its process ended with {process.returncode}")
        found = json.loads(answer.read_text())
    if "error" in found:
        raise ConfigError(found["error"])
    return Imported(found["document"], found["notes"])


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End the program, and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# -- in that process --


class _ProgramImport:
    """The program while it is imported."""

    def __init__(self, name: str, answer: Path) -> None:
        self.name, self.answer = name, answer
        self.module, _, self.path = name.partition(":")
        self.has_started = False

    def begin(self, seconds: float) -> None:
        self._hold_still()
        signal.signal(signal.SIGALRM, self._end_late)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            importlib.import_module(self.module)
        except (Exception, SystemExit) as error:  # the user's code runs during its import
            self._fail(error)
        self.end()

    def end(self, note: str | None = None) -> NoReturn:
        """Read the scheduler, and end the process: threads of the program do not keep it."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            found = self._scheduler()
        except (AttributeError, KeyError) as error:
            self._fail(error, note)
        try:
            imported = import_apscheduler(found)
        except ConfigError as error:
            self._answer({"error": str(error)})
        if self.has_started:
            imported.note("the module starts its scheduler when it is imported; here it was not started")
        if note is not None:
            imported.note(note)
        self._answer({"document": imported.document, "notes": imported.notes})

    def _scheduler(self) -> Any:
        found: Any = sys.modules[self.module]
        for part in self.path.split("."):
            found = getattr(found, part)
        return found

    def _fail(self, error: BaseException, note: str | None = None) -> NoReturn:
        reason = note or f"{type(error).__name__}: {error}"
        self._answer({"error": f"{self.name} cannot be imported: {reason}"})

    def _answer(self, fields: dict[str, Any]) -> NoReturn:
        self.answer.write_text(json.dumps(fields))
        os._exit(0)

    def _end_late(self, _signal: int, _frame: FrameType | None) -> None:
        self.end("the import of the module does not end; it was read as far as it had come")

    def _hold_still(self) -> None:
        """Replace what would begin something, also in modules that are to be imported."""
        for name in ("bind", "listen"):
            setattr(socket.socket, name, _ignore)
        time.sleep = self._wait_or_end(time.sleep)
        signal.pause = self._wait_or_end(signal.pause)
        sys.exit = self._wait_or_end(sys.exit)
        sys.meta_path.insert(0, _Finder(self))
        for module in list(sys.modules.values()):
            self.hold_still_in(module)

    def hold_still_in(self, module: ModuleType) -> None:
        name = module.__name__
        if name.startswith(_SCHEDULERS):
            start = self._start_and_run if name.endswith(".blocking") else self._start
            for kind in vars(module).values():
                own = vars(kind) if isinstance(kind, type) and kind.__module__ == name else {}
                for method in _OF_SCHEDULERS & own.keys():
                    setattr(kind, method, start if method == "start" else _ignore)
        for table, replacement in ((_RETURN, _ignore), (_RUN, self._run)):
            for path in table.get(name, ()):
                owner, _, function = path.rpartition(".")
                setattr(getattr(module, owner) if owner else module, function, replacement)

    def _start(self, *_args: Any, **_keys: Any) -> None:
        self.has_started = True

    def _start_and_run(self, *_args: Any, **_keys: Any) -> None:
        self.has_started = True
        self._run()

    def _run(self, *_args: Any, **_keys: Any) -> None:
        """Read the scheduler where nothing that follows would be reached, if there is one."""
        with contextlib.suppress(AttributeError, KeyError):
            self._scheduler()
            self._end_on_main_thread()

    def _wait_or_end(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        def wait_or_end(*args: Any) -> Any:
            if self.has_started:
                self._end_on_main_thread()  # a program that has started its scheduler only waits from here on
            return wait(*args)

        return wait_or_end

    def _end_on_main_thread(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self.end()


def _ignore(*_args: Any, **_keys: Any) -> None:
    return None


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as the others do, and replaces what would begin something in them."""

    def __init__(self, reading: _ProgramImport) -> None:
        self._reading = reading

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _RUN | _RETURN and not fullname.startswith(_SCHEDULERS):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_hold_still(module: ModuleType) -> None:
                execute(module)
                self._reading.hold_still_in(module)

            spec.loader.exec_module = execute_and_hold_still  # type: ignore[method-assign]
        return spec


if __name__ == "__main__":
    _ProgramImport(sys.argv[1], Path(sys.argv[2])).begin(float(sys.argv[3]))
