"""The shape of an answer, written once: a class that makes the JSON, and from which `api` makes its documentation.

A field is an annotation. Its value is the attribute of the same name of the value that is shown, unless `field` names
another attribute or a function. Instants (`When`) become text by themselves. The annotations stay text until somebody
asks for the documentation, so importing a shape costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Annotated, Any, ClassVar

from everwhen.views.values import Object, when_text

When = Annotated[str, "date-time"]
Read = Callable[[Any], Any]


class Field:
    """Where a field's value comes from, and what the documentation adds to its type."""

    __slots__ = ("about", "examples", "is_optional", "source", "via")

    def __init__(
        self,
        source: str | Read | None = None,
        *,
        via: Read | None = None,
        about: str | None = None,
        examples: list[Any] | None = None,
        is_optional: bool = False,
    ) -> None:
        self.source = source
        self.via = via
        self.about = about
        self.examples = examples
        self.is_optional = is_optional

    def reader(self, name: str, annotation: str) -> Read:
        """Return the function that reads this field from the value that is shown."""
        if callable(self.source):
            return self.source
        get, via = attrgetter(self.source or name), self.via or _INSTANT_READERS.get(annotation)
        if via is None:
            return get
        return lambda value: None if (found := get(value)) is None else via(found)


def field(source: str | Read | None = None, **more: Any) -> Any:
    """Describe a field: `source` is the path of an attribute, or a function of the value that is shown.

    `via` converts what was found, unless that is None; `about` and `examples` go into the documentation;
    `is_optional`: the field may be left out.
    """
    return Field(source, **more)


def each(convert: Read) -> Read:
    """Return a function that converts all items of a list."""

    def convert_all(items: Iterable[Any]) -> list[Any]:
        return [convert(item) for item in items]

    return convert_all


_INSTANT_READERS: dict[str, Read] = dict.fromkeys(("When", "When | None"), when_text)
_PLAIN = Field()


class View:
    """The base of all shapes. They have no instances: `of` returns the plain data that is sent.

    >>> class Thing(View):
    ...     id: str = field("name")
    ...     seen_at: When | None
    >>> from types import SimpleNamespace
    >>> Thing.of(SimpleNamespace(name="a", seen_at=0))
    {'id': 'a', 'seen_at': '1970-01-01T00:00:00Z'}
    """

    _readers: ClassVar[tuple[tuple[str, str, Read], ...]]

    @classmethod
    def of(cls, value: Any, **given: Any) -> Object:
        """Return the answer about a value; fields that are given are not read from it."""
        readers = cls.__dict__.get("_readers") or cls._build_readers()
        if not given:
            return {key: read(value) for key, _, read in readers}
        return {key: given[name] if name in given else read(value) for key, name, read in readers}

    @classmethod
    def made(cls, **given: Any) -> Object:
        """Return the answer with these fields, which are all that it has."""
        return cls.of(None, **given)

    @classmethod
    def fields(cls) -> dict[str, tuple[type[View], str, Field]]:
        """Return each field by its name: the class that declares it, its annotation, and the rest."""
        found: dict[str, tuple[type[View], str, Field]] = {}
        for base in reversed(cls.__mro__[:-2]):
            for name, annotation in base.__annotations__.items():
                found[name] = (base, annotation, base.__dict__.get(name, _PLAIN))
        return found

    @classmethod
    def _build_readers(cls) -> tuple[tuple[str, str, Read], ...]:
        cls._readers = tuple(
            (key_of(name), name, more.reader(name, annotation))
            for name, (_, annotation, more) in cls.fields().items()
        )
        return cls._readers


def key_of(name: str) -> str:
    """Return the key of a field in JSON: `from_` is `from`, which Python does not take as a name."""
    return name.removesuffix("_")
