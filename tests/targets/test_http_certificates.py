"""TLS to a real server on loopback, whose certificate is signed by nobody: refused, unless this machine trusts it.

The certificate in `self_signed.pem` is for 127.0.0.1 and lasts a hundred years; its key guards nothing.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from everwhen.model.outcome import Outcome
from tests.targets.http_server import Requests, Server, a_server, status
from tests.targets.running import perform

CERTIFICATE = Path(__file__).parent / "self_signed.pem"

# Which certificates are trusted is read when the client is loaded, hence a process of its own.
TRUSTING = """
import json, sys
from tests.targets.http_server import Requests
from tests.targets.running import perform

outcome = perform(Requests(), {"url": sys.argv[1]})
print(json.dumps([outcome.status, outcome.is_final, outcome.error or ""]))
"""


@pytest.fixture
def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def send(server: Server) -> Outcome:
    return perform(Requests(), {"url": f"https://127.0.0.1:{server.port}/", "body": "a secret"})


def send_trusting(url: str) -> tuple[str, bool, str]:
    environment = {**os.environ, "SSL_CERT_FILE": str(CERTIFICATE)}
    command = [sys.executable, "-c", TRUSTING, url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    state, is_final, error = json.loads(done.stdout)
    return state, is_final, error


def test_a_certificate_that_nobody_signed_is_refused_and_may_be_retried(tls: ssl.SSLContext) -> None:
    with a_server(status(200), tls=tls) as server:
        outcome = send(server)
        assert server.seen == []
        assert (outcome.error or "").startswith(f"TLS with https://127.0.0.1:{server.port}/ failed: ")
    assert (outcome.status, outcome.is_final) == ("failed", False)
    assert "certificate verify failed: self-signed certificate" in (outcome.error or "")


def test_a_certificate_that_this_machine_trusts_is_taken(tls: ssl.SSLContext) -> None:
    with a_server(status(200), tls=tls) as server:
        assert send_trusting(f"https://127.0.0.1:{server.port}/") == ("succeeded", False, "")
        assert len(server.seen) == 1


def test_a_trusted_certificate_of_another_host_is_refused(tls: ssl.SSLContext) -> None:
    with a_server(status(200), tls=tls) as server:
        state, is_final, error = send_trusting(f"https://localhost:{server.port}/")
        assert server.seen == []
    assert (state, is_final) == ("failed", False)
    assert "Hostname mismatch" in error
