"""The shape of an answer, written once: a class that makes the JSON, and from which `api` makes its documentation.

A field is an annotation. Its value is the attribute of the same name of the value that is shown, unless `field` names
another attribute or a function. Instants (`When`) become text by themselves. The annotations stay text until somebody
asks for the documentation, so importing a shape costs next to nothing.

Also what all answers have in common: instants, lists and cursors, and how they are encoded.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from operator import attrgetter
from typing import Annotated, Any, ClassVar, NamedTuple

from everwhen.model.instants import rfc3339_text

Object = dict[str, Any]
LONGEST_NUMBER = 18  # digits
PORTION = 20  # items of a list that are written at once
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
When = Annotated[str, "date-time"]
Read = Callable[[Any], Any]


class ViewField(NamedTuple):
    """Where a field's value comes from, and what the documentation adds to its type."""

    source: str | Read | None = None  # the path of an attribute, or a function of the value that is shown
    via: Read | None = None  # converts what was found, unless that is None
    about: str | None = None
    examples: list[Any] | None = None
    is_optional: bool = False  # may be left out


def field(source: str | Read | None = None, **more: Any) -> Any:
    """Describe a field, as the value of its annotation."""
    return ViewField(source, **more)


def each(convert: Read) -> Read:
    """Return a function that converts all items of a list."""
    return lambda items: [convert(item) for item in items]


_PLAIN = ViewField()
_INSTANTS = frozenset(("When", "When | None"))


class _Reading:
    """How a shape is read from a value: all attributes at once, then those that are converted or computed."""

    __slots__ = ("computed", "converted", "get_all", "keys", "template")

    def __init__(self, view: type[View], given: Collection[str]) -> None:
        fields = {name: more for name, (_, _, more) in view.fields().items()}
        annotations = {name: annotation for name, (_, annotation, _) in view.fields().items()}
        read = [name for name, more in fields.items() if name not in given and not callable(more.source)]
        paths = [str(fields[name].source or name) for name in read]
        vias = {
            name: fields[name].via or (when_text if annotations[name] in _INSTANTS else None) for name in read
        }
        self.template: Object = dict.fromkeys(map(key_of, fields))
        self.keys = [key_of(name) for name in read]
        # With one name it would return no tuple; what is beyond the keys is not used.
        self.get_all: Read = attrgetter(*paths, paths[0]) if paths else lambda _: ()
        self.converted = [(key_of(name), via) for name, via in vias.items() if via is not None]
        sources = {name: more.source for name, more in fields.items() if name not in given}
        self.computed = [(key_of(name), source) for name, source in sources.items() if callable(source)]

    def read(self, value: Any) -> Object:
        found = self.template.copy()
        found.update(zip(self.keys, self.get_all(value), strict=False))
        for key, convert in self.converted:
            if found[key] is not None:
                found[key] = convert(found[key])
        for key, compute in self.computed:
            found[key] = compute(value)
        return found


class View:
    """The base of all shapes. They have no instances: `of` returns the plain data that is sent.

    >>> class Thing(View):
    ...     id: str = field("name")
    ...     seen_at: When | None
    >>> from types import SimpleNamespace
    >>> Thing.of(SimpleNamespace(name="a", seen_at=0))
    {'id': 'a', 'seen_at': '1970-01-01T00:00:00Z'}
    """

    _readings: ClassVar[dict[tuple[type[View], tuple[str, ...]], _Reading]] = {}

    @classmethod
    def of(cls, value: Any, **given: Any) -> Object:
        """Return the answer about a value; fields that are given are not read from it."""
        names = tuple(given)
        reading = cls._readings.get((cls, names))
        if reading is None:
            reading = cls._readings[cls, names] = _Reading(cls, names)
        found = reading.read(value)
        for name in given:
            found[key_of(name)] = given[name]
        return found

    @classmethod
    def made(cls, **given: Any) -> Object:
        """Return the answer with these fields, which are all that it has."""
        return cls.of(None, **given)

    @classmethod
    def fields(cls) -> dict[str, tuple[type[View], str, ViewField]]:
        """Return each field by its name: the class that declares it, its annotation, and the rest."""
        found: dict[str, tuple[type[View], str, ViewField]] = {}
        for base in reversed(cls.__mro__[:-2]):
            for name, annotation in base.__annotations__.items():
                found[name] = (base, annotation, base.__dict__.get(name, _PLAIN))
        return found


def key_of(name: str) -> str:
    """Return the key of a field in JSON: `from_` is `from`, which Python does not take as a name."""
    return name.removesuffix("_")


# -- what all answers have in common --


def encoded(fields: Any) -> bytes:
    """Return an answer as it is sent; unpaired surrogates are replaced."""
    return b"".join(_pieces(fields)) if isinstance(fields, dict) and "items" in fields else _encoded(fields)


def _pieces(fields: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield a list in portions: in one piece it would keep the interpreter from all other threads."""
    items, others = fields["items"], _encoded({name: fields[name] for name in fields if name != "items"})
    yield b'{"items":['
    for first in range(0, len(items), PORTION):
        yield (b"," if first else b"") + _encoded(items[first : first + PORTION])[1:-1]
    yield b"]}" if others == b"{}" else b"]," + others[1:]


def _encoded(fields: Any) -> bytes:
    return _encode(fields).encode(errors="replace")


def when_text(instant: int | None) -> str | None:
    """Return an instant as RFC 3339 in UTC."""
    return None if instant is None else rfc3339_text(instant)


def list_to_json(items: list[Object]) -> Object:
    return {"items": items, "total": len(items)}


def cursor_of(*numbers: int) -> str:
    """Return a cursor: opaque to callers, so that its content may change."""
    return base64.urlsafe_b64encode(f"r{'.'.join(map(str, numbers))}".encode()).decode().rstrip("=")


def read_cursor(cursor: str, count: int) -> list[int] | None:
    """Return the numbers of a cursor that has so many; None when it is not such a cursor."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:
        return None
    numbers = numbers_of(text[1:])
    return numbers if text[:1] == "r" and numbers is not None and len(numbers) == count else None


def numbers_of(text: str) -> list[int] | None:
    """
    >>> numbers_of("12.345"), numbers_of("12."), numbers_of("-1")
    ([12, 345], None, None)
    """
    parts = text.split(".")
    if all(part.isascii() and part.isdecimal() and len(part) <= LONGEST_NUMBER for part in parts):
        return [int(part) for part in parts]
    return None
