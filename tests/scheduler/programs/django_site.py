"""Django: the scheduler starts when the applications are ready, in each process of the server."""

import atexit
import os
from typing import Any

from django.apps import AppConfig
from django.http import HttpResponse
from django.urls import path

from everwhen import Run, Scheduler

scheduler = Scheduler(os.environ.get("SHOP_DATABASE", "sqlite://"), name="shop")


@scheduler.every("1s", id="tick", catch_up="run_all", if_running="queue")
def tick(run: Run) -> str:
    return f"process {os.getpid()}"


class ShopConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    name = __name__
    label = "shop"

    def ready(self) -> None:
        scheduler.start()
        atexit.register(scheduler.stop)


urlpatterns = [path("", lambda request: HttpResponse(scheduler.get_status()))]


def application() -> Any:
    from django.conf import settings

    settings.configure(
        SECRET_KEY="of a test",
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        INSTALLED_APPS=[f"{__name__}.ShopConfig"],
    )
    from django.core.wsgi import get_wsgi_application  # wants the settings

    return get_wsgi_application()
