"""The application for INSTALLED_APPS: it imports the `tasks.py` of every installed application."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class EverwhenConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    name = "everwhen.django"
    label = "everwhen"

    def ready(self) -> None:
        """Declare the schedules of the project; nothing is started, and no database is opened."""
        autodiscover_modules("tasks")
