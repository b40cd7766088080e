"""Finding and calling the function that `module:function` names."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable
from typing import Any, Protocol

from everwhen.model.outcome import Outcome
from everwhen.targets.python_run import Cancelled, failure_of, outcome_of


class UnknownFunctionError(Exception):
    """The named function cannot be loaded."""


class Cancellable(Protocol):
    """The information that a function gets about its run."""

    @property
    def cancelled(self) -> Cancelled: ...


class Functions(Protocol):
    """Functions that a program has declared under its name, by the schedule that runs them."""

    @property
    def name(self) -> str: ...

    def find(self, schedule_id: str, label: str) -> Callable[..., Any] | None: ...


def load(name: str) -> Callable[..., Any]:
    """Import the function when it is first needed; UnknownFunctionError states what is wrong with the name."""
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise UnknownFunctionError(f'{name!r} is not of the form "module:function"')
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnknownFunctionError(
            f"cannot import {module_name!r}: ModuleNotFoundError: {error}; install it, or put it on PYTHONPATH"
        ) from error
    except BaseException as error:  # third-party code runs during its import
        raise UnknownFunctionError(
            f"cannot import {module_name!r}: {type(error).__name__}: {error}"
        ) from error
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UnknownFunctionError(f"{module_name!r} has no {path!r}") from None
    if not callable(found):
        raise UnknownFunctionError(f"{name!r} is a {type(found).__name__}, not a function")
    function: Callable[..., Any] = found
    return function


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # the method, to look at it
    )


def call(function: Callable[..., Any], about: object) -> Outcome:
    """Call a plain function; whatever it does is an outcome."""
    try:
        returned = function(*_arguments(function, about))
        if inspect.isawaitable(returned):
            returned = asyncio.run(_finish(returned))
        return outcome_of(returned)
    except BaseException as error:
        return failure_of(error)


async def call_async(function: Callable[..., Any], about: Cancellable) -> Outcome:
    """Await an async function; whatever it does is an outcome. A CancelledError that it raises itself is a failure."""
    try:
        return outcome_of(await function(*_arguments(function, about)))
    except asyncio.CancelledError as error:
        return Outcome("cancelled") if about.cancelled else failure_of(error)
    except BaseException as error:
        return failure_of(error)


async def _finish(awaitable: Any) -> Any:
    return await awaitable


def _arguments(function: Callable[..., Any], about: object) -> tuple[object, ...]:
    """Return the arguments of the call: a function without parameters gets none."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C
        return (about,)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_one = any(p.kind in (*positional, inspect.Parameter.VAR_POSITIONAL) for p in parameters)
    return (about,) if takes_one else ()
