"""Messages by e-mail, over SMTP: plain text, one message for all receivers.

Anybody between this process and the server can hide STARTTLS, or answer it with an error. So nothing is sent without
encryption where the rule requires it, or where its URL has a password.
"""

from __future__ import annotations

import io
import smtplib
import socket
import ssl
from collections.abc import Mapping
from contextlib import closing, suppress
from email.message import EmailMessage
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from everwhen.clock import SystemClock
from everwhen.model.alerts import AlertDelivery, Sent
from everwhen.model.instants import to_datetime
from everwhen.model.one_line import one_line
from everwhen.targets.secrets import Secrets, UnresolvedError

TIMEOUT = 10.0  # seconds for each answer
LONGEST = 60.0  # seconds for all of them
MOST_ANSWERED = 256 * 1_024  # bytes
_PORTS = {"smtp": 25, "smtps": 465}
_TEMPORARY = range(400, 500)
_NO_RECEIVER = "to has no address"
_EXPECTED = "smtp must be a URL such as smtp://host:587 or smtps://host"


class MailChannel:
    """Sends by `smtp://user:password@host:587`, which STARTTLS encrypts, or `smtps://host`, TLS at once."""

    def __init__(self, *, timeout: float = TIMEOUT, longest: float = LONGEST) -> None:
        self._timeout, self._longest = timeout, longest
        self._clock = SystemClock()

    def send(self, spec: Mapping[str, Any], delivery: AlertDelivery) -> Sent:
        secrets = Secrets()
        try:
            fields = secrets.resolve(dict(spec))
            sent = self._send(fields, delivery)
        except UnresolvedError as error:
            return Sent(False, str(error))
        except PlainTextError as error:
            sent = Sent(False, str(error))
        except smtplib.SMTPResponseException as error:
            sent = _refused(error.smtp_code, error.smtp_error)
        except smtplib.SMTPRecipientsRefused as error:
            sent = Sent(False, _NO_RECEIVER)
            for code, text in error.recipients.values():
                sent = _refused(code, text)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            sent = Sent(False, f"{type(error).__name__}: {error}", is_final=isinstance(error, ValueError))
        return sent._replace(answer=secrets.mask(sent.answer) or "")

    def _send(self, fields: Mapping[str, Any], delivery: AlertDelivery) -> Sent:
        address, port = _address_of(fields["smtp"])
        message = message_of(fields, delivery)
        receivers = _addresses_in(message, "To")
        if not receivers:
            return Sent(False, _NO_RECEIVER)
        sender = next(iter(_addresses_in(message, "From")), None)
        host = address.hostname or ""
        with closing(self._connect(address, host, port, starttls=fields.get("starttls"))) as server:
            if address.username is not None:
                server.login(unquote(address.username), unquote(address.password or ""))
            refused = server.send_message(message, sender, receivers)
            with suppress(smtplib.SMTPException, OSError):
                server.quit()  # the message is accepted, whatever the answer to this
        if refused:
            return Sent(True, f"refused by the server for {', '.join(refused)}")
        return Sent(True, f"accepted by {host}")

    def _connect(self, address: SplitResult, host: str, port: int, *, starttls: bool | None) -> smtplib.SMTP:
        """Return a connection that a message, and a password, may be sent on."""
        context = ssl.create_default_context()
        deadline = self._clock.monotonic() + self._longest
        if address.scheme == "smtps":
            return _TlsServer(host, port, deadline=deadline, timeout=self._timeout, context=context)
        server = _Server(host, port, deadline=deadline, timeout=self._timeout)
        try:
            is_required = address.username is not None if starttls is None else starttls
            if starttls is not False:
                _encrypt(server, host, context, is_required=is_required)
        except BaseException:
            server.close()
            raise
        return server


class PlainTextError(Exception):
    """A connection that is not encrypted, where only an encrypted one may be used."""

    def __init__(self, host: str, fault: str) -> None:
        super().__init__(
            f"{host} {fault}, and nothing was sent in plain text; starttls: false would allow it"
        )


def _encrypt(server: smtplib.SMTP, host: str, context: ssl.SSLContext, *, is_required: bool) -> None:
    """Encrypt a connection where the server offers it; a failure to do so is never followed by plain text."""
    server.ehlo()
    if not server.has_extn("starttls"):
        if is_required:
            raise PlainTextError(host, "offers no STARTTLS")
        return
    try:
        server.starttls(context=context)
    except smtplib.SMTPResponseException as error:
        said = _refused(error.smtp_code, error.smtp_error)
        raise PlainTextError(host, f"refuses STARTTLS ({said.answer})") from error
    server.ehlo()  # what was said before the encryption may be anybody's


class _Server(smtplib.SMTP):
    """A connection whose answers are bounded in time and size, all of them together."""

    def __init__(self, host: str, port: int, *, deadline: float, timeout: float, **more: Any) -> None:
        self._deadline = deadline
        super().__init__(host, port, timeout=timeout, **more)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = io.BufferedReader(_Answers(self.sock, self._deadline, self.timeout))
        return super().getreply()


class _TlsServer(_Server, smtplib.SMTP_SSL):
    """The same, encrypted from its beginning."""


class _Answers(io.RawIOBase):
    """What a server sends, until a deadline, and up to a number of bytes."""

    def __init__(self, connection: socket.socket, deadline: float, timeout: float) -> None:
        self._connection, self._deadline, self._timeout = connection, deadline, timeout
        self._bytes_left = MOST_ANSWERED
        self._clock = SystemClock()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        remaining = self._deadline - self._clock.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")  # as the connection itself says it
        self._connection.settimeout(min(self._timeout, remaining))
        count = self._connection.recv_into(buffer)
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise OSError("its answers are too long")
        return count


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
    message["Subject"] = one_line(body["title"], 300)  # on one line, whatever a job said
    message["From"] = one_line(fields.get("from") or f"everwhen@{host}", 300)
    message["To"] = ", ".join(one_line(one, 300) for one in receivers)
    message["Date"] = to_datetime(delivery.created_at)
    message["Message-ID"] = f"<{delivery.delivery_id}@everwhen>"
    message["Everwhen-Delivery-Id"] = delivery.delivery_id
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(f"{body['title']}\n\n{body['text']}\n")
    return message


def _addresses_in(message: EmailMessage, name: str) -> list[str]:
    """Return the addresses of a header; `smtplib` would find others, or an empty one, with each release of Python."""
    return [address.addr_spec for address in message[name].addresses if address.addr_spec != "<>"]


def _refused(code: int, text: bytes | str) -> Sent:
    said = text.decode(errors="replace") if isinstance(text, bytes) else text
    return Sent(False, f"SMTP {code}: {one_line(said)}", is_final=code not in _TEMPORARY)
