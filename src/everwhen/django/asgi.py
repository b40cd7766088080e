"""The REST API beside Django's own ASGI application, under a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from django import conf
from django.core.exceptions import ImproperlyConfigured

from everwhen.django import get_scheduler
from everwhen.scheduler.options import ApiOptions

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def mount_api(application: ASGIApp, prefix: str, **options: Unpack[ApiOptions]) -> ASGIApp:
    """Return an application that serves the REST API under a prefix, and everything else by `application`.

    The API answers to the hosts of ALLOWED_HOSTS: Django checks the Host only of requests that reach a view.
    """
    root = f"/{prefix.strip('/')}"
    if root == "/":
        raise ImproperlyConfigured('mount_api needs a prefix, such as "/tools/everwhen"; Django has the root')
    hosts: Any = {"allowed_hosts": list(conf.settings.ALLOWED_HOSTS)}
    api = get_scheduler().asgi(**{**hosts, **options})

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        above = scope.get("root_path", "").rstrip("/")
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{above}{root}/"):
            await api({**scope, "root_path": above + root}, receive, send)
        else:
            await application(scope, receive, send)

    return serve
