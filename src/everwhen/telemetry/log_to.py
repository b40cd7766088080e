"""Forwarding of a scheduler's log records to the logger that its program provides."""

from __future__ import annotations

import logging
import threading
from typing import Protocol, runtime_checkable

_ENGINE = logging.getLogger("everwhen")
_guard = threading.Lock()
_senders: list[LogTo] = []
_before: list[tuple[bool, int]] = []


@runtime_checkable
class SchedulerLogger(Protocol):
    """The logger of a scheduler; a `logging.Logger` is one."""

    def debug(self, msg: str, /) -> object: ...

    def info(self, msg: str, /) -> object: ...

    def warning(self, msg: str, /) -> object: ...

    def error(self, msg: str, /) -> object: ...


class LogTo(logging.Handler):
    """A handler that forwards the engine's records between `begin` and `end`; the root's handlers do not get them."""

    def __init__(self, logger: SchedulerLogger) -> None:
        super().__init__()
        self._logger = logger
        self._say = {logging.DEBUG: logger.debug, logging.INFO: logger.info, logging.WARNING: logger.warning}

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if not isinstance(self._logger, logging.Logger):
                self._say.get(record.levelno, self._logger.error)(self.format(record))
            elif self._logger.isEnabledFor(record.levelno):
                self._logger.handle(record)  # with all its fields
        except Exception:  # a failing logger must not stop the scheduler
            self.handleError(record)

    def begin(self) -> None:
        if _is_ours(self._logger):
            return
        with _guard:
            if not _senders:
                _before.append((_ENGINE.propagate, _ENGINE.level))
                _ENGINE.propagate = False
                _ENGINE.setLevel(logging.DEBUG)  # the given logger applies its own level
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
    """Return whether the logger is the engine's own or a child of it; such a logger needs no forwarding."""
    return isinstance(logger, logging.Logger) and (logger.name + ".").startswith("everwhen.")
