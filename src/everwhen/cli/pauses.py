"""The pause of a schedule as commands print it: by whom, since when, until when, and with what note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everwhen.cli.instants import InstantDisplay
from everwhen.model.pause import describe_pause


def pause_text(schedule: Mapping[str, Any], display: InstantDisplay) -> str | None:
    """Describe the pause of a schedule; None: it is not paused, or a service of release 0.2 does not say by whom."""
    pause = schedule.get("pause")
    if pause is None:
        return None
    at, until = (pause[name] and display.text(pause[name], schedule["timezone"]) for name in ("at", "until"))
    text = describe_pause(pause["by"], pause["name"], at=at, until=until, note=pause["note"])
    return f"paused {text}".rstrip()
