"""The pytest plugin: the fixture `manual_scheduler`. Every pytest run with everwhen installed loads this module, so it
imports nothing before a test uses the fixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from everwhen.testing.manual import ManualScheduler


@pytest.fixture
def manual_scheduler() -> Iterator[Callable[..., ManualScheduler]]:
    """Return a factory of schedulers (see `everwhen.testing.manual_scheduler`); close them after the test."""
    from everwhen.testing import manual

    made: list[ManualScheduler] = []

    def make(*arguments: Any, **keys: Any) -> ManualScheduler:
        made.append(manual.manual_scheduler(*arguments, **keys))
        return made[-1]

    yield make
    for scheduler in made:
        scheduler.close()
