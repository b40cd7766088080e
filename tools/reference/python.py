"""`python.md`: the public names of the package, with their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from types import FunctionType
from typing import Any, ForwardRef, get_overloads

import everwhen
from everwhen.errors import SchedulerError
from tools.reference.markdown import code, fence, prose, table
from tools.reference.markdown import page as make_page

INTRODUCTION = """`import everwhen` gives the names of this page; a name is loaded when it is first used. The
[guide](../guide/python.md) shows how they work together, [testing](../guide/testing.md) how schedules are
tested. `**options` are [the keys of a schedule](schedule-keys.md)."""
# What programs import from other modules of the package.
FURTHER = {
    "everwhen.testing": None,  # its own __all__
    "everwhen.django": ("get_scheduler",),
    "everwhen.flask": ("EverwhenFlask",),
}
FIRST = ("Scheduler", "AsyncScheduler", "Run")


def public() -> dict[str, Any]:
    """Return every public name of the package, the most used ones first."""
    names = sorted(name for name in everwhen.__all__ if name != "__version__")
    ordered = [*FIRST, *(name for name in names if name not in FIRST)]
    return {name: getattr(everwhen, name) for name in ordered}


def page() -> str:
    found = public()
    errors = {
        name: one for name, one in found.items() if isinstance(one, type) and issubclass(one, SchedulerError)
    }
    others = {name: one for name, one in found.items() if name not in errors}
    classes = {name: one for name, one in others.items() if isinstance(one, type)}
    functions = {name: one for name, one in others.items() if isinstance(one, FunctionType)}
    rest = {name: one for name, one in others.items() if name not in classes and name not in functions}
    return make_page(
        "Python",
        INTRODUCTION,
        "## Classes",
        *(part for name, one in classes.items() for part in _class(name, one)),
        "## Functions",
        *(part for name, one in functions.items() for part in _function(f"### `{name}`", name, one)),
        "## Types",
        *(part for name, one in rest.items() for part in (f"### `{name}`", code(_annotation(str(one))))),
        "## Errors",
        "All errors are kinds of `SchedulerError`.",
        table(("error", "kind of", "meaning"), (_error(name, one) for name, one in errors.items())),
        *_further(),
    )


def _error(name: str, one: type) -> tuple[str, str, str]:
    return code(name), code(one.__mro__[1].__name__), prose(_first(one.__doc__))


def _further() -> Iterator[str]:
    for module, names in FURTHER.items():
        found = import_module(module)
        yield f"## `{module}`"
        for name in names or found.__all__:
            one = getattr(found, name)
            yield from _class(name, one) if isinstance(one, type) else _function(f"### `{name}`", name, one)


def _class(name: str, one: type) -> Iterator[str]:
    yield f"### `{name}`"
    if hasattr(one, "_fields") or hasattr(one, "__dataclass_fields__") or hasattr(one, "__total__"):
        yield _fields(one)
    elif (made := _signature(name, one)) is not None:
        yield _fence(made)
    yield _text(one.__doc__ if one.__doc__ and not one.__doc__.startswith(f"{one.__name__}(") else "")
    methods = [(word, getattr(one, word)) for word in dir(one) if _is_public(one, word)]
    rows = [
        (code(word), _returns(value), prose(_first(value.__doc__)))
        for word, value in methods
        if isinstance(value, property)
    ]
    if rows:
        yield table(("property", "type", "meaning"), rows)
    for word, value in methods:
        if not isinstance(value, property):
            yield from _function(f"#### `{name}.{word}`", word, value)


def _is_public(one: type, word: str) -> bool:
    if (
        word.startswith("_")
        or word in getattr(one, "_fields", ())
        or word in getattr(one, "__dataclass_fields__", ())
    ):
        return False
    owner = next((base for base in one.__mro__ if word in vars(base)), object)
    value = getattr(one, word)
    return owner.__module__.startswith("everwhen") and (callable(value) or isinstance(value, property))


def _fields(one: type) -> str:
    annotations: dict[str, Any] = {}
    for base in reversed(one.__mro__):
        annotations |= inspect.get_annotations(base)
    defaults = dict(getattr(one, "_field_defaults", {}))
    for field in dataclasses.fields(one) if dataclasses.is_dataclass(one) else ():
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
    rows = [
        (code(name), code(_field_type(kind)), _default(defaults.get(name, ...)))
        for name, kind in annotations.items()
    ]
    return table(("field", "type", "default"), rows)


def _field_type(kind: Any) -> str:
    # Named tuples and typed dictionaries wrap the annotation that is written in the source.
    return _annotation(kind.__forward_arg__ if isinstance(kind, ForwardRef) else str(kind))


def _default(value: Any) -> str:
    return "" if value is ... or " at 0x" in repr(value) else code(repr(value))


def _function(heading: str, name: str, one: Any) -> Iterator[str]:
    yield heading
    forms = get_overloads(one) if isinstance(one, FunctionType) else []
    made = [form for form in (_signature(name, each) for each in forms or [one]) if form is not None]
    if made:
        yield _fence("\n\n".join(made))
    yield _text(one.__doc__)


def _fence(signature: str) -> str:
    return f"<!-- not run: a signature -->\n{fence('python', signature)}"


def _signature(name: str, one: Any) -> str | None:
    """Return the call of a function or class, one parameter to a line where it is long."""
    try:
        signature = inspect.signature(one)
    except (TypeError, ValueError):
        return None
    parameters = [value for word, value in signature.parameters.items() if word != "self"]
    shown = [_parameter(value) for value in parameters]
    keyword = next(
        (number for number, value in enumerate(parameters) if value.kind is value.KEYWORD_ONLY), None
    )
    if keyword is not None and not any(value.kind is value.VAR_POSITIONAL for value in parameters):
        shown.insert(keyword, "*")
    if first := sum(value.kind is value.POSITIONAL_ONLY for value in parameters):
        shown.insert(first, "/")
    result = signature.return_annotation
    arrow = "" if result is signature.empty or isinstance(one, type) else f" -> {_annotation(result)}"
    line = f"{name}({', '.join(shown)}){arrow}"
    prefix = "async def " if inspect.iscoroutinefunction(one) else "" if isinstance(one, type) else "def "
    if len(prefix + line) <= 100:
        return f"{prefix}{line}"
    return f"{prefix}{name}(\n" + "".join(f"    {part},\n" for part in shown) + f"){arrow}"


def _parameter(value: inspect.Parameter) -> str:
    stars = "*" if value.kind is value.VAR_POSITIONAL else "**" if value.kind is value.VAR_KEYWORD else ""
    kind = "" if value.annotation is value.empty else f": {_annotation(value.annotation)}"
    if value.default is value.empty:
        return f"{stars}{value.name}{kind}"
    default = "…" if " at 0x" in repr(value.default) else repr(value.default)
    return f"{value.name}{kind} = {default}"


def _annotation(kind: Any) -> str:
    text = kind if isinstance(kind, str) else getattr(kind, "__name__", None) or str(kind)
    return re.sub(r"\b(?:[a-z_]+\.)+([A-Z])", r"\1", text.removeprefix("<class '").removesuffix("'>"))


def _returns(value: property) -> str:
    found = inspect.get_annotations(value.fget).get("return", "") if value.fget else ""
    return code(_annotation(found)) if found else ""


def _first(doc: str | None) -> str:
    return " ".join((doc or "").strip().partition("\n\n")[0].split())


def _text(doc: str | None) -> str:
    """Return a docstring as Markdown: paragraphs, and its examples as code."""
    parts = []
    for paragraph in textwrap.dedent(inspect.cleandoc(doc or "")).split("\n\n"):
        parts.append(_example(paragraph) if paragraph.startswith(">>>") else _paragraph(paragraph))
    return "\n\n".join(part for part in parts if part)


def _paragraph(text: str) -> str:
    text = text.removesuffix("::")
    if text.startswith("    "):
        return f"<!-- not run: a part of a program -->\n{fence('python', textwrap.dedent(text))}"
    if re.match(r"[-*] ", text):
        return text
    before, mark, example = text.partition("\n>>> ")
    plain = prose(before)
    return f"{plain}\n\n{_example('>>> ' + example)}" if mark else plain


def _example(text: str) -> str:
    return f"<!-- not run: a test of its docstring -->\n{fence('python', text)}"
