"""Messages by e-mail, over SMTP: plain text, one message for all receivers."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from everwhen.decide.alert_text import plain
from everwhen.model.alerts import AlertDelivery, Sent
from everwhen.model.instants import to_datetime
from everwhen.targets.secrets import Secrets, UnresolvedError

TIMEOUT = 10.0
_PORTS = {"smtp": 25, "smtps": 465}
_TEMPORARY = range(400, 500)
_EXPECTED = "smtp must be a URL such as smtp://host:587 or smtps://host"


class MailChannel:
    """Sends by `smtp://user:password@host:587`, with STARTTLS where it is offered, or `smtps://host`, TLS at once."""

    def __init__(self, *, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout

    def send(self, spec: Mapping[str, Any], delivery: AlertDelivery) -> Sent:
        secrets = Secrets()
        try:
            fields = secrets.resolve(dict(spec))
            sent = self._send(fields, delivery)
        except UnresolvedError as error:
            return Sent(False, str(error))
        except smtplib.SMTPResponseException as error:
            sent = _refused(error.smtp_code, error.smtp_error)
        except smtplib.SMTPRecipientsRefused as error:
            sent = Sent(False, "to has no address")
            for code, text in error.recipients.values():
                sent = _refused(code, text)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            sent = Sent(False, f"{type(error).__name__}: {error}", is_final=isinstance(error, ValueError))
        return sent._replace(answer=secrets.mask(sent.answer) or "")

    def _send(self, fields: Mapping[str, Any], delivery: AlertDelivery) -> Sent:
        address, port = _address_of(fields["smtp"])
        message = message_of(fields, delivery)
        host = address.hostname or ""
        with self._connected(address.scheme, host, port) as server:
            if address.username is not None:
                server.login(unquote(address.username), unquote(address.password or ""))
            refused = server.send_message(message)
        if refused:
            return Sent(True, f"refused by the server for {', '.join(refused)}")
        return Sent(True, f"accepted by {host}")

    def _connected(self, scheme: str, host: str, port: int) -> smtplib.SMTP:
        context = ssl.create_default_context()
        if scheme == "smtps":
            return smtplib.SMTP_SSL(host, port, timeout=self._timeout, context=context)
        server = smtplib.SMTP(host, port, timeout=self._timeout)
        try:
            server.ehlo()
            if server.has_extn("starttls"):
                server.starttls(context=context)
                server.ehlo()
        except BaseException:
            server.close()
            raise
        return server


def _address_of(url: str) -> tuple[SplitResult, int]:
    """Return the parts of an SMTP URL, and its port; no error shows any of it, as it may contain a password."""
    try:
        address = urlsplit(url)
        port = address.port
    except ValueError:
        raise ValueError(f"{_EXPECTED}; in a password write %2F for /, and %23 for #") from None
    if address.scheme not in _PORTS or not address.hostname:
        raise ValueError(_EXPECTED)
    return address, port or _PORTS[address.scheme]


def message_of(fields: Mapping[str, Any], delivery: AlertDelivery) -> EmailMessage:
    """Return the mail; its Message-ID is that of the delivery, so that a repetition can be recognised."""
    body = delivery.content
    receivers = [fields["to"]] if isinstance(fields["to"], str) else list(fields["to"])
    host = socket.gethostname()
    message = EmailMessage()
    message["Subject"] = plain(body["title"], 300)  # on one line, whatever a job said
    message["From"] = plain(fields.get("from") or f"everwhen@{host}", 300)
    message["To"] = ", ".join(plain(one, 300) for one in receivers)
    message["Date"] = to_datetime(delivery.created_at)
    message["Message-ID"] = f"<{delivery.delivery_id}@everwhen>"
    message["Everwhen-Delivery-Id"] = delivery.delivery_id
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(f"{body['title']}\n\n{body['text']}\n")
    return message


def _refused(code: int, text: bytes | str) -> Sent:
    said = text.decode(errors="replace") if isinstance(text, bytes) else text
    return Sent(False, f"SMTP {code}: {plain(said)}", is_final=code not in _TEMPORARY)
