"""Messages by e-mail, to a server in the test; to a program; and by Apprise, to an HTTP server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from everwhen.alerts.apprise import AppriseChannel
from everwhen.alerts.channels import open_channels
from everwhen.alerts.command import CommandChannel
from everwhen.alerts.mail import MailChannel, message_of
from everwhen.config.sections.notify import rules_in
from everwhen.model.alerts import AlertDelivery, Sent
from everwhen.model.one_line import one_line
from tests.servers.ports import LOOPBACK, HeldPort
from tests.targets.http_server import a_server, reset, status

PATIENCE = 60.0  # seconds for a server or a program that ends by itself
TITLE = "[everwhen] FAILING s: x\r\nBcc: evil@example.com"


def a_delivery(title: str = TITLE, kind: Any = "opened") -> AlertDelivery:
    body = {"version": 1, "title": title, "text": "Since Monday.", "alert": {"severity": "error"}}
    return AlertDelivery(
        1, "d-1", "r", kind, "schedule.failing", owner=None, body=json.dumps(body), created_at=0, next_at=0
    )


class Letterbox:
    """What a mail server does with what it gets."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.receivers: list[str] = []
        self.answer = "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.receivers = list(envelope.rcpt_tos)
        self.messages.append(message_from_bytes(envelope.original_content or b""))
        return self.answer


@pytest.fixture(scope="module")
def mail_server() -> Iterator[tuple[Letterbox, str]]:
    letterbox, port = Letterbox(), HeldPort()
    controller = Controller(letterbox, hostname=LOOPBACK, port=port.number)
    controller.start()
    try:
        yield letterbox, f"smtp://{LOOPBACK}:{port.number}"
    finally:
        controller.stop()
        port.release()


def test_a_mail_goes_to_all_receivers_with_the_id_of_its_delivery(mail_server: tuple[Letterbox, str]) -> None:
    letterbox, url = mail_server
    letterbox.answer = "250 OK"
    spec = {"to": ["ada@example.com", "bob@example.com"], "from": "alerts@example.com", "smtp": url}
    assert MailChannel(timeout=PATIENCE).send(spec, a_delivery()) == Sent(True, "accepted by 127.0.0.1")
    message = letterbox.messages[-1]
    assert letterbox.receivers == ["ada@example.com", "bob@example.com"]
    assert message["Subject"] == "[everwhen] FAILING s: x Bcc: evil@example.com"
    assert message["Bcc"] is None
    assert message["Message-ID"] == "<d-1@everwhen>"
    assert (
        message["Date"] == "Thu, 01 Jan 1970 00:00:00 +0000"
    )  # when its alert was reported, also in a repetition
    assert "Since Monday." in str(message.get_payload())


@pytest.mark.parametrize(("code", "is_final"), [("451 try later", False), ("554 never", True)])
def test_a_mail_that_is_refused_for_now_may_be_sent_again(
    mail_server: tuple[Letterbox, str], code: str, is_final: bool
) -> None:
    letterbox, url = mail_server
    letterbox.answer = code
    sent = MailChannel(timeout=PATIENCE).send({"to": "ada@example.com", "smtp": url}, a_delivery())
    assert sent == Sent(False, f"SMTP {code[:3]}: {code[4:]}", is_final=is_final)


def test_a_mail_server_that_hangs_up_or_is_no_url_is_a_failure() -> None:
    with a_server(reset) as server:
        spec = {"to": "a@example.com", "smtp": f"smtp://127.0.0.1:{server.port}"}
        sent = MailChannel(timeout=0.3).send(spec, a_delivery())
    assert not sent.is_delivered
    assert not sent.is_final
    assert MailChannel().send({"to": "a@example.com", "smtp": "https://x"}, a_delivery()).is_final
    broken = MailChannel().send({"to": "a@example.com", "smtp": "smtp://ada:s3c/ret@mail:587"}, a_delivery())
    assert broken.is_final and "%2F" in broken.answer and "s3c" not in broken.answer
    assert "NO_MAIL" in MailChannel().send({"to": "a", "smtp": "${NO_MAIL}"}, a_delivery()).answer


def test_half_a_character_and_a_receiver_that_is_empty_are_no_riddles(
    mail_server: tuple[Letterbox, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    letterbox, url = mail_server
    letterbox.answer = "250 OK"
    channel = MailChannel(timeout=PATIENCE)
    sent = channel.send({"to": "a@example.com", "smtp": url}, a_delivery(f"a {one_line(chr(0xD800))} b"))
    assert (sent.is_delivered, letterbox.messages[-1]["Subject"]) == (True, "a b")
    monkeypatch.setenv("NO_RECEIVER", "")
    sent = channel.send({"to": "${NO_RECEIVER:-}", "smtp": url}, a_delivery())
    assert sent == Sent(False, "to has no address")


@pytest.mark.parametrize(
    ("to", "receivers"),
    [
        (["", "Ada <ada@example.com>", " "], ["ada@example.com"]),
        ("team: ada@example.com, bob@example.com;", ["ada@example.com", "bob@example.com"]),
        ('"a, b" <c@example.com>', ["c@example.com"]),
        ("undisclosed-recipients:;", []),
        (["<>", "a@@example.com"], []),
        ([], []),
    ],
)
def test_the_receivers_of_a_mail_are_the_same_on_every_python(
    mail_server: tuple[Letterbox, str], to: str | list[str], receivers: list[str]
) -> None:
    letterbox, url = mail_server
    letterbox.answer, letterbox.receivers = "250 OK", []
    sent = MailChannel(timeout=PATIENCE).send({"to": to, "smtp": url}, a_delivery())
    assert letterbox.receivers == receivers
    assert sent == (Sent(True, "accepted by 127.0.0.1") if receivers else Sent(False, "to has no address"))


def test_no_header_of_a_mail_can_be_broken() -> None:
    fields = {"to": "a@example.com\r\nX: y", "from": "b@example.com\nZ: y", "smtp": "smtp://h"}
    text = message_of(fields, a_delivery()).as_string().partition("\n\n")[0]
    assert "\nX:" not in text
    assert "\nZ:" not in text
    assert "\nBcc:" not in text


def run(argv: Sequence[str], *, within: float = PATIENCE, **env: str) -> Sent:
    return CommandChannel(timeout=within).send({"argv": list(argv), "env": env}, a_delivery())


def test_a_program_gets_nothing_of_the_environment_but_what_its_rule_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("EVERWHEN_ADMIN_TOKEN", "EVERWHEN_DATABASE", "DATABASE_PASSWORD", "PAGER_KEY"):
        monkeypatch.setenv(name, f"s3cret-of-{name}")
    (rule,) = rules_in([{"command": ["env"], "env": {"KEY": "${PAGER_KEY}", "LEVEL": 3}}])
    sent = CommandChannel(timeout=PATIENCE).send(rule.fields, a_delivery())
    heard = sent.answer.split()
    assert {"KEY=***", "LEVEL=3", "EVERWHEN_DELIVERY_ID=d-1"} <= set(heard)
    assert any(one.startswith("PATH=") for one in heard)
    assert "s3cret" not in sent.answer and "PAGER_KEY=" not in sent.answer


def test_a_program_gets_the_body_on_its_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERE", str(tmp_path / "heard"))
    code = (
        "import os,pathlib,sys; file = pathlib.Path(sys.argv[1]);"
        "file.write_text(os.environ['EVERWHEN_DELIVERY_ID']+sys.stdin.read()); print('to', file)"
    )
    sent = run([sys.executable, "-c", code, "${WHERE}"])
    assert sent == Sent(True, "exit 0: to ***")
    heard = (tmp_path / "heard").read_text()
    assert heard.startswith("d-1")
    assert json.loads(heard.removeprefix("d-1"))["text"] == "Since Monday."


def test_a_program_that_fails_hangs_or_is_not_there_is_a_failure() -> None:
    assert run(["false"]) == Sent(False, "exit 1")
    final = run(["sh", "-c", "echo wrong; exit 78"])
    assert final == Sent(False, "exit 78: wrong", is_final=True)
    hanging = run(["sleep", "60"], within=0.2)
    assert hanging.answer == "sleep took longer than 0.2s"
    assert "cannot be started" in run(["/no/such/program"]).answer
    assert "NO_ARGUMENT" in run(["echo", "${NO_ARGUMENT}"]).answer


def test_the_end_of_a_program_counts_not_what_it_leaves_running_or_how_much_it_writes(tmp_path: Path) -> None:
    quiet = (sys.executable, "-W", "ignore", "-c")
    left = f"['sh', '-c', 'until test -e {tmp_path}/over; do sleep 0.2; done']"  # it keeps the output open
    leaving = f"import subprocess; subprocess.Popen({left}, start_new_session=%s); print('sent')"
    child = f"import subprocess, time; subprocess.Popen({left}, start_new_session=True); time.sleep(600)"
    try:
        for is_apart in (False, True):
            sent = run([*quiet, leaving % is_apart])
            assert sent == Sent(True, "exit 0: sent")
        assert not run([*quiet, child], within=0.5).is_delivered
    finally:
        (tmp_path / "over").touch()
    much = ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"]
    sent = run(much)
    assert sent.is_delivered and len(sent.answer) < 600
    silent = run(["sh", "-c", "exec >&- 2>&-; sleep 60"], within=0.2)
    assert not silent.is_delivered


# Apprise 2.2 imports imghdr, which Python 3.13 no longer has; it brings its own there.
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_apprise_sends_to_its_services_and_says_when_it_could_not() -> None:
    with a_server(status(200)) as server:
        url = f"json://127.0.0.1:{server.port}/?cto={PATIENCE:g}&rto={PATIENCE:g}"
        assert open_channels(lambda: 0)["apprise"].send(url, a_delivery("FAILING s")).is_delivered
        assert server.seen[0].json["title"] == "FAILING s"
        server.answer = status(500)
        sent = AppriseChannel().send(url, a_delivery(kind="resolved"))
        assert not sent.is_delivered
        assert not sent.is_final
        AppriseChannel().send(url, a_delivery("<@1> @everyone [pay](https://evil.example)"))
        title = server.seen[-1].json["title"]
        assert not any(markup in title for markup in ("<@", "@everyone", "]("))
    assert AppriseChannel().send("nonsense", a_delivery()).is_final
    assert "NO_URL" in AppriseChannel().send("${NO_URL}", a_delivery()).answer
