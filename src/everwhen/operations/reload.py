"""Reload: read the file again, and apply it as a whole or not at all.

A refusal is recorded, and the old configuration stays in force.
"""

from __future__ import annotations

from collections.abc import Callable

from everwhen.errors import ConfigError
from everwhen.model.declared import Declarations
from everwhen.model.events import Event
from everwhen.operations.apply import Applied, apply
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of

MOST_LINES = 50


def reload(
    runtime: Runtime,
    read: Callable[[], Declarations],
    *,
    actor: str | None = None,
    may_remove_most: bool = False,
) -> Applied:
    """Read and apply; raise ConfigError with the reason when the file is refused, and change nothing then."""
    try:
        return apply(runtime, read(), actor=actor, may_remove_most=may_remove_most)
    except ConfigError as error:
        lines = str(error).splitlines()
        detail = {"mistakes": len(lines), "lines": lines[:MOST_LINES]}
        store_of(runtime).slots.record(
            [Event("config.rejected", runtime.clock.now(), actor=actor, detail=detail)]
        )
        raise


def config_revision(runtime: Runtime) -> tuple[int, str]:
    """Return the number and the digest of the configuration in force; 0 and an empty string when there is none."""
    return store_of(runtime).catalogue.config_revision()
