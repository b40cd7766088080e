"""An outpost: everwhen in a process that others start, a queue's worker or somebody's program.

It finds the configuration as the commands do: the file that EVERWHEN_CONFIG names, else `everwhen.yaml` in the working
directory, and the environment. Of a file with mistakes it takes what is sound, if only the settings are: refusing its
schedules is for whoever applies them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from everwhen.config.file_workflows import FileWorkflows
from everwhen.config.problems import Report
from everwhen.config.read import Configuration, Host, examine
from everwhen.config.settings import Settings
from everwhen.engine.carrier import Carrier
from everwhen.model.instants import SECOND
from everwhen.ports.house import House
from everwhen.system_clock import SystemClock, local_zone_name
from everwhen.wiring import Stack, open_node_stack
from everwhen.workshop import Workshop, open_workshop


@dataclass
class Outpost:
    """The database and the settings; what jobs need is put together when there are any."""

    stack: Stack
    configuration: Configuration

    @property
    def house(self) -> House:
        return self.stack.house

    @property
    def settings(self) -> Settings:
        return self.configuration.settings

    @cached_property
    def workshop(self) -> Workshop:
        return open_workshop(
            self.house,
            plugin_dirs=self.configuration.plugin_dirs,
            workflows=FileWorkflows(self.configuration, found_configuration),
            max_workers=1,
            allow_private_urls=self.configuration.allows_private_urls,
        )

    def carrier(self) -> Carrier:
        """Who runs jobs here, one after another."""
        return Carrier(
            self.house,
            self.workshop.targets,
            lease=self.settings.lease,
            name=self.settings.name,
            greet=self.workshop.greet,
            when_cut_off=self.settings.when_cut_off,
        )

    def close(self) -> None:
        self.stack.close()


def open_outpost(database: str | None = None) -> Outpost:
    """On this database, or on the one that the configuration names; it has to be there."""
    configuration = found_configuration()
    settings = configuration.settings
    stack = open_node_stack(
        database or settings.database,
        timezone=settings.timezone,
        catch_up_stagger=int(settings.catch_up_stagger * SECOND),
        is_existing=True,
    )
    return Outpost(stack, configuration)


def found_configuration() -> Configuration:
    """What the file and the environment say. No plugin is asked, no function imported."""
    path, report = Path(os.environ.get("EVERWHEN_CONFIG", "everwhen.yaml")), Report()
    found = examine(path, Host(os.environ, local_zone_name, SystemClock().now()), report)
    if "EVERWHEN_CONFIG" in os.environ or path.exists():
        report.refuse("service")
    return found
