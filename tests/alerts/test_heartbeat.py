"""The heartbeat to the outside: called while the node is ready, and only then."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from everwhen.alerts.http import call_url
from everwhen.config.read import Host, read_configuration
from everwhen.config.settings import HeartbeatSettings
from everwhen.engine.heartbeat import OutsideHeartbeat
from everwhen.errors import ConfigError
from everwhen.wiring import open_heartbeat
from tests.targets.http_server import a_server, reset, status
from tests.targets.running import until


def test_a_url_is_called_while_the_node_is_ready(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "everwhen")
    reasons: list[str | None] = [None, "the database is away", None, None, None]
    with a_server(status(200)) as server:
        secret = f"{server.url}/ping/s3cret"
        heartbeat = OutsideHeartbeat(lambda: call_url(secret), 60, lambda: reasons.pop(0))
        assert heartbeat.beat()
        assert not heartbeat.beat()  # not ready
        assert [request.path for request in server.seen] == ["/ping/s3cret"]
        server.answer = status(500)
        assert not heartbeat.beat()
        server.answer = reset
        assert not heartbeat.beat()
        server.answer = status(200)
        assert heartbeat.beat()
    assert caplog.messages == [
        "the heartbeat cannot be delivered: 127.0.0.1 answered HTTP 500",
        "the heartbeat is delivered again",
    ]


def test_it_goes_on_by_itself_until_it_is_stopped() -> None:
    with a_server(status(200)) as server:
        heartbeat = open_heartbeat(server.url, 0.01, lambda: None)
        heartbeat.start()
        until(lambda: len(server.seen) >= 2)
        heartbeat.stop()


def test_a_url_that_cannot_be_called_is_a_failure_that_names_its_host_alone() -> None:
    with a_server(reset) as server:
        assert "s3cret" not in call_url(f"{server.url}/s3cret").answer
    assert not call_url("http://[::1").is_delivered


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{url: 'https://hc.example/x'}", HeartbeatSettings("https://hc.example/x", 60.0)),
        ("{url: 'https://hc.example/x', every: 5m}", HeartbeatSettings("https://hc.example/x", 300.0)),
    ],
)
def test_the_file_says_where_and_how_often(text: str, expected: HeartbeatSettings, tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(f"service: {{heartbeat: {text}}}")
    host = Host({}, lambda: "UTC", 0)
    assert read_configuration(tmp_path / "everwhen.yaml", host).settings.heartbeat == expected
    (tmp_path / "everwhen.yaml").write_text("service: {heartbeat: {every: 1m}}")
    with pytest.raises(ConfigError, match="url is required"):
        read_configuration(tmp_path / "everwhen.yaml", host)
