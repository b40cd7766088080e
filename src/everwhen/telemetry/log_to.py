"""Sending what a scheduler logs to the logger that its program gave it."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

_ENGINE = logging.getLogger("everwhen")
_guard = threading.Lock()
_senders: list[LogTo] = []
_before: list[tuple[bool, int]] = []


class SchedulerLogger(Protocol):
    """Where a scheduler's log goes; a `logging.Logger` is one."""

    def debug(self, msg: str, /) -> object: ...

    def info(self, msg: str, /) -> object: ...

    def warning(self, msg: str, /) -> object: ...

    def error(self, msg: str, /) -> object: ...


class LogTo(logging.Handler):
    """Between `begin` and `end` the engine's records go there, and not to the root's handlers as well."""

    def __init__(self, logger: SchedulerLogger) -> None:
        super().__init__()
        self._logger = logger
        self._say = {logging.DEBUG: logger.debug, logging.INFO: logger.info, logging.WARNING: logger.warning}

    def emit(self, record: logging.LogRecord) -> None:
        say = self._say.get(record.levelno, self._logger.error)
        try:
            say(self.format(record))
        except Exception:  # a logger must not stop what it tells about
            self.handleError(record)

    def begin(self) -> None:
        if _is_ours(self._logger):
            return
        with _guard:
            if not _senders:
                _before.append((_ENGINE.propagate, _ENGINE.level))
                _ENGINE.propagate = False
                _ENGINE.setLevel(logging.DEBUG)  # the logger decides itself what it drops
            _senders.append(self)
            _ENGINE.addHandler(self)

    def end(self) -> None:
        with _guard:
            if self not in _senders:
                return
            _senders.remove(self)
            _ENGINE.removeHandler(self)
            if not _senders:
                _ENGINE.propagate, level = _before.pop()
                _ENGINE.setLevel(level)


def _is_ours(logger: SchedulerLogger) -> bool:
    """The engine's own logger, or one below it, gets everything anyway."""
    return isinstance(logger, logging.Logger) and (logger.name + ".").startswith("everwhen.")
