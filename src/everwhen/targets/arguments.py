"""What a Python function is called with: the arguments of its schedule, and the run where a parameter wants it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, get_args, get_type_hints

from everwhen.targets.python_function import PythonRun

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
RUN = "run"
LONGEST_SHOWN = 100
DEEPEST = 100  # levels of a value


class Arguments(NamedTuple):
    """The arguments that a schedule gives to its function, beside the run."""

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}

    @staticmethod
    def of_spec(fields: Mapping[str, Any]) -> Arguments:
        args, kwargs = fields.get("args"), fields.get("kwargs")
        return Arguments(args or (), kwargs or {}) if args or kwargs else NO_ARGUMENTS

    def __bool__(self) -> bool:
        return bool(self.args or self.kwargs)


NO_ARGUMENTS = Arguments()


def bind(function: Callable[..., Any], about: object, given: Arguments = NO_ARGUMENTS) -> Callable[[], Any]:
    """Return a call of the function with what it was given, and with `about` where a parameter wants the run.

    That is a parameter annotated `Run`, or named `run`. A function that was given nothing and requires one argument
    gets it as well, whatever the parameter is called.
    """
    args, kwargs = complete(function, about, given)
    return partial(function, *args, **kwargs) if args or kwargs else function


def wants_run(function: Callable[..., Any], given: Arguments) -> bool:
    """Return whether `bind` would give the run to the function."""
    wish = _wish_of(function)
    if wish.name is None or wish.name in given.kwargs:
        return not given and wish.is_implied
    return True


def call_fault(function: Callable[..., Any], given: Arguments) -> str | None:
    """Return why the function cannot be called with these arguments; None when it can."""
    signature = _signature_of(function)
    if signature is None:
        return None
    args, kwargs = complete(function, None, given)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return f"{_name_of(function)}{signature} cannot be called with {_shown(given)}: {error}"
    return None


def complete(
    function: Callable[..., Any], about: object, given: Arguments
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the positional and the keyword arguments of the call."""
    wish = _wish_of(function)
    if wish.name is None or wish.name in given.kwargs:
        return ((about,), {}) if not given and wish.is_implied else (given.args, given.kwargs)
    if wish.place is not None and wish.place <= len(given.args):
        return (*given.args[: wish.place], about, *given.args[wish.place :]), given.kwargs
    return given.args, {**given.kwargs, wish.name: about}


def json_fault(value: Any, path: str, depth: int = 0) -> str | None:
    """Return where a value is not JSON, and what it is instead; None when all of it is.

    >>> json_fault({"when": [1, {2}]}, "kwargs")
    'kwargs.when[1] is a set, which is not JSON'
    """
    if depth > DEEPEST:
        return f"{path[:40]}… is more than {DEEPEST} levels deep"
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                return f"{path} has the key {key!r}, and the keys of JSON are text"
            if fault := json_fault(item, f"{path}.{key}", depth + 1):
                return fault
        return None
    if isinstance(value, list | tuple):
        faults = (json_fault(item, f"{path}[{place}]", depth + 1) for place, item in enumerate(value))
        return next(filter(None, faults), None)
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        kind = type(value).__name__
        return f"{path} is {'an' if kind[0] in 'AEIOaeio' else 'a'} {kind}, which is not JSON"
    return None


class _Wish(NamedTuple):
    """Where a function wants the run: in the parameter of this name, which may stand at a place among the others.

    `is_implied`: a function that is given nothing can only mean the run by its one argument.
    """

    name: str | None
    place: int | None
    is_implied: bool


def _wish_of(function: Callable[..., Any]) -> _Wish:
    try:
        return _remembered_wish(function)
    except TypeError:  # an object that cannot be hashed
        return _read_wish(function)


def _read_wish(function: Callable[..., Any]) -> _Wish:
    signature = _signature_of(function)
    if signature is None:
        return _Wish(None, None, is_implied=True)
    parameters = list(signature.parameters.values())
    wanted = _run_parameter(function, parameters)
    if wanted is None:
        return _Wish(None, None, _requires_one(parameters))
    place = parameters.index(wanted) if wanted.kind in _POSITIONAL else None
    return _Wish(wanted.name, place, is_implied=False)


# Reading a signature costs more than all else that a call of a short function costs.
_remembered_wish = lru_cache(maxsize=1_000)(_read_wish)


def _signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # written in C
        return None


def _run_parameter(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter]
) -> inspect.Parameter | None:
    named = next((one for one in parameters if one.name == RUN and not _is_variable(one)), None)
    if named is not None or all(one.annotation is one.empty for one in parameters):
        return named
    hints = _hints_of(function)
    return next((one for one in parameters if _is_run(hints.get(one.name, one.annotation))), None)


def _is_variable(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _hints_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:  # a name that exists for type checkers only, or an object that cannot be asked
        return {}


def _is_run(annotation: Any) -> bool:
    if isinstance(annotation, str):  # it could not be evaluated
        return annotation.rpartition(".")[2] in ("Run", PythonRun.__name__)
    return annotation is PythonRun or PythonRun in get_args(annotation)


def _requires_one(parameters: Sequence[inspect.Parameter]) -> bool:
    """Return whether a function that was given nothing can only mean the run by its one argument."""
    positional = [one for one in parameters if one.kind in _POSITIONAL]
    required = [one for one in positional if one.default is one.empty]
    accepts_any = not positional and any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return len(required) == 1 or accepts_any


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _shown(given: Arguments) -> str:
    parts = [_short(value) for value in given.args]
    parts += [f"{name}={_short(value)}" for name, value in given.kwargs.items()]
    return f"({', '.join(parts)})"
