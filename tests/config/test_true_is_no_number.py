"""true and false are no numbers: no key of a file that takes a number or a duration takes one of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from everwhen.compat.body_shapes import SUBMISSION
from everwhen.config.document import plain_node
from everwhen.config.problems import Report
from everwhen.config.schema import FILE
from everwhen.model.kinds import Either, Kind, ListOf, MapOf, Record
from everwhen.model.scalars import Number, Parsed


def numbers(kind: Kind, path: str = "") -> Iterator[tuple[str, Kind]]:
    """Every place that takes a number, or a text that a parser reads."""
    if isinstance(kind, Number | Parsed):
        yield path, kind
    elif isinstance(kind, Record):
        for name, key in kind.keys.items():
            yield from numbers(key.kind, f"{path}.{name}")
    elif isinstance(kind, ListOf | MapOf):
        yield from numbers(kind.kind, f"{path}[]")
    elif isinstance(kind, Either):
        for inner in (*(one for types, one in kind.kinds if types is not bool), kind.last):
            yield from numbers(inner, path)


FOUND = [*numbers(FILE, "file"), *numbers(SUBMISSION, "submission")]


def test_the_places_are_found() -> None:
    assert len(FOUND) > 100


@pytest.mark.parametrize("value", [True, False])
def test_true_is_no_number_anywhere(value: bool) -> None:
    taken = []
    for path, kind in FOUND:
        report = Report()
        kind.check(plain_node(value, report))
        if not report.errors:
            taken.append(path)
    assert taken == []


@pytest.mark.parametrize("value", [10**9, 10**200])
def test_seconds_are_bounded_as_durations_are(value: int) -> None:
    for path, kind in FOUND:
        report = Report()
        kind.check(plain_node(value, report))
        assert report.errors or not path.endswith(("timeout", "misfire_grace", "lease", "reset_after")), path
