"""What only some processes have: a configuration file, a loop. The API asks here, and says so where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from everwhen.model.declared import Declarations
from everwhen.operations.apply import Applied
from everwhen.operations.system import LoopFigures


class Reload(Protocol):
    """Read the file and take it, whole or not at all."""

    def __call__(self, actor: str, *, may_remove_most: bool) -> Applied: ...


@dataclass(frozen=True, slots=True)
class NodeHooks:
    """`read`: what the file declares now; `reload`: take it; `figures`: of the loop of this process; `dispatch`: who
    runs jobs, by its configuration."""

    read: Callable[[], Declarations] | None = None
    reload: Reload | None = None
    figures: Callable[[], LoopFigures] | None = None
    dispatch: str = "local"
