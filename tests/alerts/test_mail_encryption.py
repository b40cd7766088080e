"""Mail over SMTP to real servers: STARTTLS is never given up for plain text, and no server keeps a thread for long.

The certificate in `self_signed.pem` is for 127.0.0.1; whether it is trusted is the environment's to say.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from everwhen.alerts.mail import MailChannel
from everwhen.model.alerts import AlertDelivery, Sent
from tests.servers.ports import LOOPBACK, HeldPort
from tests.targets.test_http_certificates import CERTIFICATE

PATIENCE = 60.0
PASSWORD = "s3cret-password"


def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def send(
    port: int, *, account: str = "", within: float = PATIENCE, scheme: str = "smtp", **fields: object
) -> Sent:
    body = json.dumps({"version": 1, "title": "[everwhen] FAILING s: x", "text": "t"})
    delivery = AlertDelivery(
        1, "d-1", "r", "opened", "schedule.failing", owner=None, body=body, created_at=0, next_at=0
    )
    spec = {"to": "a@example.com", "smtp": f"{scheme}://{account}{LOOPBACK}:{port}", **fields}
    return MailChannel(timeout=PATIENCE, longest=within).send(spec, delivery)


# -- a mail server --


@dataclass
class Letterbox:
    """What a mail server got, and on connections of which kind."""

    was_encrypted: list[bool] = field(default_factory=list)
    passwords: list[str] = field(default_factory=list)

    async def handle_DATA(self, _server: SMTP, session: Session, _envelope: Envelope) -> str:  # noqa: N802
        self.was_encrypted.append(session.ssl is not None)
        return "250 OK"

    def authenticate(
        self, _server: SMTP, _session: object, _envelope: object, _how: str, data: object
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.passwords.append(data.password.decode())
        return AuthResult(success=True)


@contextmanager
def a_mail_server(*, has_starttls: bool) -> Iterator[tuple[Letterbox, int]]:
    letterbox, port = Letterbox(), HeldPort()
    controller = Controller(
        letterbox,
        hostname=LOOPBACK,
        port=port.number,
        tls_context=server_tls() if has_starttls else None,
        authenticator=letterbox.authenticate,
        auth_require_tls=False,
    )
    controller.start()
    try:
        yield letterbox, port.number
    finally:
        controller.stop()
        port.release()


@pytest.fixture
def trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))


@pytest.mark.usefixtures("trust")
@pytest.mark.parametrize(("account", "fields"), [("ada:{}@", {}), ("", {"starttls": True}), ("", {})])
def test_a_mail_is_encrypted_where_the_server_offers_it(account: str, fields: dict[str, Any]) -> None:
    with a_mail_server(has_starttls=True) as (letterbox, port):
        assert send(port, account=account.format(PASSWORD), **fields).is_delivered
    assert letterbox.was_encrypted == [True]
    assert letterbox.passwords == ([PASSWORD] if account else [])


@pytest.mark.parametrize(("account", "fields"), [("ada:{}@", {}), ("", {"starttls": True})])
def test_where_it_is_asked_for_and_not_offered_nothing_is_sent(account: str, fields: dict[str, Any]) -> None:
    with a_mail_server(has_starttls=False) as (letterbox, port):
        sent = send(port, account=account.format(PASSWORD), **fields)
    assert (sent.is_delivered, sent.is_final) == (False, False)
    assert "offers no STARTTLS" in sent.answer and "starttls: false" in sent.answer
    assert letterbox == Letterbox()


def test_a_certificate_that_nobody_signed_ends_it() -> None:
    with a_mail_server(has_starttls=True) as (letterbox, port):
        sent = send(port, account=f"ada:{PASSWORD}@")
    assert not sent.is_delivered and "CERTIFICATE_VERIFY_FAILED" in sent.answer
    assert letterbox == Letterbox()


def test_plain_text_is_for_those_who_ask_for_it_or_have_no_password() -> None:
    with a_mail_server(has_starttls=False) as (letterbox, port):
        assert send(port).is_delivered
        assert send(port, account=f"ada:{PASSWORD}@", starttls=False).is_delivered
    assert letterbox.was_encrypted == [False, False] and letterbox.passwords == [PASSWORD]


# -- servers, and those between, that mean harm --

Converse = Callable[[socket.socket, "Hostile"], None]


@dataclass
class Hostile:
    """A server that speaks by a script; what it heard is in `lines`."""

    listener: socket.socket
    converse: Converse
    lines: list[bytes] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    def serve(self) -> None:
        try:
            connection, _ = self.listener.accept()
            with connection:
                self.converse(connection, self)
        except OSError:
            return

    def hear(self, stream: socket.socket) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            piece = stream.recv(1)
            if not piece:
                raise OSError("the client has gone")
            line += piece
        self.lines.append(line.strip())
        return line


@contextmanager
def a_hostile_server(converse: Converse) -> Iterator[Hostile]:
    server = Hostile(socket.create_server((LOOPBACK, 0)), converse)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()
        thread.join(PATIENCE)


def answer_starttls(answer: bytes, *, then: Converse | None = None) -> Converse:
    def converse(connection: socket.socket, server: Hostile) -> None:
        connection.sendall(b"220 mail\r\n")
        server.hear(connection)
        connection.sendall(b"250-mail\r\n250 STARTTLS\r\n")
        server.hear(connection)
        connection.sendall(answer)
        if then is not None:
            then(connection, server)
        while True:
            server.hear(connection)
            connection.sendall(b"250 as you like\r\n")

    return converse


@pytest.mark.parametrize("account", ["", f"ada:{PASSWORD}@"])
@pytest.mark.parametrize("answer", [b"454 not now\r\n", b"554 never\r\n", b"250 as you like\r\n"])
def test_a_server_that_offers_starttls_and_then_refuses_it_gets_nothing(answer: bytes, account: str) -> None:
    with a_hostile_server(answer_starttls(answer)) as server:
        sent = send(server.port, account=account)
    assert (sent.is_delivered, sent.is_final) == (False, False)
    assert "refuses STARTTLS" in sent.answer
    assert [line.split()[0].upper() for line in server.lines] == [b"EHLO", b"STARTTLS"]


@pytest.mark.usefixtures("trust")
def test_what_was_said_before_the_encryption_is_forgotten() -> None:
    """Somebody between adds an answer behind that to STARTTLS, as if it came from within."""

    def encrypt(connection: socket.socket, server: Hostile) -> None:
        with server_tls().wrap_socket(connection, server_side=True) as stream:
            for answer in (b"250 mail", b"250 OK", b"250 OK", b"354 go on"):
                server.hear(stream)
                stream.sendall(answer + b"\r\n")
            while server.hear(stream) != b".\r\n":
                pass
            stream.sendall(b"250 accepted\r\n")
            server.hear(stream)
            stream.sendall(b"554 and no farewell\r\n")

    injected = b"220 go\r\n250-injected\r\n250 AUTH PLAIN LOGIN\r\n"
    with a_hostile_server(answer_starttls(injected, then=encrypt)) as server:
        sent = send(server.port)
    assert sent.is_delivered  # whatever it says to QUIT
    words = [line.split()[0].upper() for line in server.lines[:5]]
    assert words == [b"EHLO", b"STARTTLS", b"EHLO", b"MAIL", b"RCPT"]


def drip(connection: socket.socket, server: Hostile) -> None:
    for byte in repeat(b"2"):
        connection.sendall(byte)
        if server.closing.wait(0.02):
            return


def pour(connection: socket.socket, _server: Hostile) -> None:
    while True:
        connection.sendall(b"220-mail\r\n" * 1_000)


def say_nothing(connection: socket.socket, _server: Hostile) -> None:
    connection.recv(1)


@pytest.mark.parametrize(
    ("converse", "within", "fault"),
    [(drip, 0.5, "timed out"), (say_nothing, 0.5, "timed out"), (pour, PATIENCE, "are too long")],
)
def test_a_server_that_never_ends_its_answer_is_left(converse: Converse, within: float, fault: str) -> None:
    with a_hostile_server(converse) as server:
        sent = send(server.port, within=within)
    assert (sent.is_delivered, sent.is_final) == (False, False)
    assert fault in sent.answer
