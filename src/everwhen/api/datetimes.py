"""Instants that callers name: written out with their zone, and within the years that can be told again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Strict


def _written(value: object) -> object:
    """An instant as it is documented; a bare number, which could be anything, is none."""
    if not isinstance(value, str) or "t" not in value.lower():
        raise ValueError("is no instant with its zone, such as 2026-01-05T09:00:00Z")
    return value


def _tellable(moment: datetime) -> datetime:
    """In UTC, as it is told again: what lies beyond the year 9999 there could be kept, but never shown."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies beyond the years 1 to 9999 in UTC") from None


Moment = Annotated[AwareDatetime, Strict(False), BeforeValidator(_written), AfterValidator(_tellable)]
