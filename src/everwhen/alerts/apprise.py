"""Messages by Apprise (an extra): one URL for each of its services. It says whether it sent a message, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from everwhen.decide.chat_text import break_markup
from everwhen.model.alerts import AlertDelivery, Sent
from everwhen.targets.secrets import Secrets, UnresolvedError

_TYPES = {"info": "info", "warning": "warning", "error": "failure", "critical": "failure"}


class AppriseChannel:
    """Sends to `tgram://…`, `ntfy://…` and so on; it blocks, so it belongs on the thread of a delivery."""

    def send(self, spec: Any, delivery: AlertDelivery) -> Sent:
        try:
            apprise = import_module("apprise")
        except ImportError:
            return Sent(False, "Apprise is not installed; install it with: pip install 'everwhen[apprise]'")
        secrets = Secrets()
        try:
            url = secrets.resolve(str(spec))
        except UnresolvedError as error:
            return Sent(False, str(error))
        receiver = apprise.Apprise()
        if not receiver.add(url):
            return Sent(False, "this is not a URL that Apprise knows", is_final=True)
        body: Mapping[str, Any] = delivery.content
        severity = str((body.get("alert") or {}).get("severity"))
        kind = "success" if delivery.kind == "resolved" else _TYPES.get(severity, "info")
        title, text = break_markup(body["title"]), break_markup(body["text"] or body["title"])
        is_sent = receiver.notify(title=title, body=text, notify_type=kind, body_format="text")
        return Sent(bool(is_sent), "sent" if is_sent else "Apprise could not send it; its log says more")
