"""The functions of a program as targets: how each is named, so that the process that runs it finds it again.

A function that can be imported is named by `module:function`, and every process can run it. Any other (a lambda, a
function inside a function, a method of an object that no module holds) is *local*: only the process that has it can
run it, and only while it lives.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from everwhen.errors import ConfigError, shown
from everwhen.model.kinds import NAME, NO_NAME
from everwhen.model.payload import LARGEST_PAYLOAD
from everwhen.model.schedule import Target
from everwhen.targets.arguments import Arguments, call_fault, json_fault
from everwhen.targets.python_function import UnknownFunctionError, load

ON_TRIGGER = "on_trigger"
MOST_SECONDS = 1e9  # of check_interval and lease


class Callee(NamedTuple):
    """A function with its arguments, as a schedule runs it."""

    function: Callable[..., Any]
    label: str
    given: Arguments
    is_importable: bool


def callee_of(
    schedule_id: str,
    function: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Callee:
    """Return how a function is run; refuse arguments that are not JSON, or that the function cannot take."""
    refuse_other_arguments(schedule_id, args, kwargs)
    named, given = _without_partial(function, Arguments(tuple(args or ()), dict(kwargs or {})))
    fault = (
        json_fault(list(given.args), "args") or json_fault(given.kwargs, "kwargs") or call_fault(named, given)
    )
    if fault is not None:
        raise ConfigError(f'schedule "{shown(schedule_id)}": {fault}')
    size = len(json.dumps([given.args, given.kwargs]))
    if size > LARGEST_PAYLOAD:
        raise ConfigError(
            f'schedule "{shown(schedule_id)}": args and kwargs are {size} bytes as JSON; at most {LARGEST_PAYLOAD} are '
            "taken, so hand over a reference"
        )
    label = _importable_label(named)
    return Callee(named, label or label_of(named), given, is_importable=label is not None)


def refuse_other_arguments(schedule_id: str, args: object, kwargs: object) -> None:
    """Refuse a text or a number in place of the lists of arguments."""
    if args is not None and not isinstance(args, list | tuple):
        raise ConfigError(
            f'schedule "{shown(schedule_id)}": args is a {type(args).__name__}; it must be a list, as in args=["Ada"]'
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise ConfigError(
            f'schedule "{shown(schedule_id)}": kwargs is a {type(kwargs).__name__}; it must be a mapping'
        )


def checked_function(function: object) -> Callable[..., Any]:
    """Return a function; refuse what cannot be called, and a name in place of it."""
    if callable(function):
        return function
    named = f'; to run a function by its name, write run={{"python": "{shown(function)}"}}'
    raise ConfigError(
        f'"{shown(function)}" cannot be called; give a function{named if isinstance(function, str) else ""}'
    )


def checked_word(what: str, word: str, words: Sequence[str]) -> str:
    """Return one of these words; refuse any other."""
    if word not in words:
        raise ConfigError(f'{what} "{shown(word)}" is unknown; it is one of {", ".join(words)}')
    return word


def _without_partial(function: Callable[..., Any], given: Arguments) -> tuple[Callable[..., Any], Arguments]:
    """Return the function of a `functools.partial`, and all its arguments."""
    while isinstance(function, functools.partial):
        given = Arguments((*function.args, *given.args), {**function.keywords, **given.kwargs})
        function = function.func
    return function, given


def function_target(
    label: str,
    name: str | None,
    *,
    given: Arguments = Arguments(),  # noqa: B008  # a value that nobody can change
    isolate: bool = False,
    process: str | None = None,
) -> Target:
    """Return the target of a Python function; with a name, one that programs of that name declare.

    `process`: one that only the process of that id has.
    """
    spec = {
        "function": label,
        "args": list(given.args),
        "kwargs": dict(given.kwargs),
        "name": None if isolate else name,
        "process": process,
        "isolate": isolate,
    }
    return Target("python", json.dumps({key: value for key, value in spec.items() if value}))


def with_arguments(
    schedule_id: str, target: Target, function: Callable[..., Any] | None, given: Arguments
) -> Target:
    """Return the target of a function with other arguments; refuse those that it cannot take."""
    if target.kind != "python":
        raise ConfigError(f'schedule "{shown(schedule_id)}" runs no function that could take arguments')
    spec = json.loads(target.spec)
    try:
        named = function or load(spec["function"])
    except UnknownFunctionError as error:
        raise ConfigError(f'schedule "{shown(schedule_id)}": {error}') from error
    callee = callee_of(schedule_id, named, given.args, given.kwargs)
    spec |= {"args": list(callee.given.args), "kwargs": dict(callee.given.kwargs)}
    return Target("python", json.dumps({key: value for key, value in spec.items() if value}))


def is_local(target: Target) -> bool:
    """Return whether only the process that added its function can run it."""
    return target.kind == "python" and "process" in json.loads(target.spec)


def label_of(function: Callable[..., Any]) -> str:
    """Return where a function stands: `module:function`."""
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{module}:{getattr(function, '__qualname__', None) or type(function).__qualname__}"


def _importable_label(function: Callable[..., Any]) -> str | None:
    """Return a label under which another process finds the same function; None when there is none."""
    label = label_of(function)
    owner = getattr(function, "__self__", None)
    candidates = [label]
    if owner is not None and not isinstance(owner, type):
        method = getattr(function, "__name__", "")
        candidates = [f"{place}.{method}" for place in _places_of(owner, label.partition(":")[0])]
    return next((one for one in candidates if _is_found(one, function)), None)


def _places_of(value: object, module_name: str) -> list[str]:
    """Return the names at the top level of a module, or of the one that was started, that hold this object."""
    modules = dict.fromkeys((module_name, type(value).__module__, "__main__"))
    return [
        f"{module}:{name}"
        for module in modules
        for name, held in vars(sys.modules.get(module, object)).items()
        if held is value
    ]


def _is_found(label: str, function: Callable[..., Any]) -> bool:
    try:
        return load(label) == function
    except UnknownFunctionError:
        return False


def id_of(function: Callable[..., Any]) -> str:
    """Return the id of a schedule that has none: its module and its function."""
    module, _, path = label_of(_without_partial(function, Arguments())[0]).partition(":")
    if module == "__main__":
        module = _main_name()
    text = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{module}-{path.replace('<locals>.', '')}").strip("-_")
    return checked_name("id", text[:100])


def _main_name() -> str:
    """Return what the program that was started is called: a script's file, or the module of `python -m`."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name.removesuffix(".__main__"))
    return Path(file).stem if file else "main"


def checked_figures(
    *, check_interval: float, max_workers: int, max_workers_per_owner: int | None, lease: float
) -> None:
    """Refuse figures with which a scheduler would never rest, never run a job, or lose each job at once."""
    for what, seconds in (("check_interval", check_interval), ("lease", lease)):
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 < seconds < MOST_SECONDS:
            raise ConfigError(f"{what} must be a number of seconds above 0, not {seconds!r}")
    most_of_owner = 1 if max_workers_per_owner is None else max_workers_per_owner
    for what, workers in (("max_workers", max_workers), ("max_workers_per_owner", most_of_owner)):
        if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
            raise ConfigError(f"{what} must be at least 1, not {workers!r}")


def checked_name(what: str, name: str) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ConfigError(f'{what} "{shown(name)}" {NO_NAME}')
    return name
