"""The pytest plugin: the fixture `manual_scheduler`. Loaded by every pytest that finds everwhen installed, so it
imports nothing before a test asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from everwhen.testing.manual import ManualScheduler


@pytest.fixture
def manual_scheduler() -> Iterator[Callable[..., ManualScheduler]]:
    """Makes schedulers that are stepped by hand, as `everwhen.testing.manual_scheduler`, and closes them."""
    from everwhen.testing import manual

    made: list[ManualScheduler] = []

    def make(*arguments: Any, **keys: Any) -> ManualScheduler:
        made.append(manual.manual_scheduler(*arguments, **keys))
        return made[-1]

    yield make
    for scheduler in made:
        scheduler.close()
