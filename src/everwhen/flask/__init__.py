"""everwhen in a Flask application: `EverwhenFlask` is a `Scheduler` that is set up by `init_app`."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from everwhen.errors import ConfigError, SchedulerError
from everwhen.model.scalars import unknown
from everwhen.scheduler.declaring import Agents
from everwhen.scheduler.options import AnyFunction, SchedulerOptions, TaskOptions
from everwhen.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from flask import Flask

__all__ = ["EverwhenFlask"]

PREFIX = "EVERWHEN_"
# EVERWHEN_DATABASE, EVERWHEN_NAME and so on: the options of a `Scheduler`, in capitals.
_KEYS = {f"{PREFIX}{name.upper()}": name for name in ("database", *SchedulerOptions.__annotations__)}
NO_APP = "EverwhenFlask has no application yet; call init_app(app) first"


class EverwhenFlask(Scheduler):
    """A scheduler whose functions run inside the application context.

    Decorators may be used before `init_app`. The configuration of the application overrides what is given here.
    """

    def __init__(self, app: Flask | None = None, **options: Unpack[SchedulerOptions]) -> None:
        self.app: Flask | None = None
        self._given: Mapping[str, Any] = options
        self._declarations: list[Callable[[], object]] = []
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Take the configuration of an application, and declare there what was declared so far; start nothing."""
        if self.app is not None:
            if self.get_status() != "stopped":
                raise SchedulerError("the scheduler runs for another application; stop it before init_app")
            self.close()
        options = {**self._given, **_read_config(app.config), "context": app.app_context}
        database = options.pop("database", None)
        if database is None:
            text = "EVERWHEN_DATABASE is not set; write app.config"
            raise ConfigError(f'{text}["EVERWHEN_DATABASE"] = "sqlite:///shop.db", or "postgresql://…"')
        super().__init__(database, **options)
        self.app = app
        app.extensions["everwhen"] = self
        for declare in self._declarations:
            declare()

    def start(self, agents: Agents | None = None) -> None:
        """Fire and run in this process, until it ends or `stop` is called; returns at once."""
        super().start(agents)
        atexit.unregister(self._end)
        atexit.register(self._end)

    def _end(self) -> None:
        try:
            self.stop()
        finally:
            self.close()

    def _declaring(
        self, trigger: dict[str, Any], options: TaskOptions
    ) -> Callable[[AnyFunction], AnyFunction]:
        def declare(function: AnyFunction) -> AnyFunction:
            def on_this_app() -> object:
                return super(EverwhenFlask, self)._declaring(trigger, options)(function)

            if self.app is not None:
                on_this_app()
            self._declarations.append(on_this_app)
            return function

        return declare

    if not TYPE_CHECKING:  # type checkers go on finding misspelled names

        def __getattr__(self, name: str) -> Any:
            if self.__dict__.get("app") is None:
                raise AttributeError(NO_APP)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _read_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among the configuration of an application; refuse those that are unknown."""
    given = {key: value for key, value in config.items() if key.startswith(PREFIX)}
    for key in given:
        if key not in _KEYS:
            raise ConfigError(f"{key}: {unknown('key', key, _KEYS)}")
    return {_KEYS[key]: value for key, value in given.items() if value is not None}
