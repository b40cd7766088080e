"""Proxies: whose X-Forwarded-For counts, which address is on record, and what serves other machines without TLS."""

from __future__ import annotations

import http.client
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from everwhen.config.settings import ApiSettings, api_settings_of
from everwhen.errors import ConfigError
from everwhen.model.queries import EventFilter
from tests.api.serving import Service, serving

PROXIES = (ip_network("127.0.0.0/8"), ip_network("10.0.0.0/8"), ip_network("2001:db8::/32"))


def guess(service: Service, *forwarded: str) -> int:
    """The status of a request with a wrong token that came along this way, a header for each argument."""
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=30)
    try:
        connection.putrequest("GET", "/api/v1/schedules/")
        connection.putheader("Authorization", "Bearer ew_a-guess")
        for each in forwarded:
            connection.putheader("X-Forwarded-For", each)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def recorded(service: Service) -> object:
    (last,) = service.runtime.ledger.events(EventFilter(types=["auth.denied"]), limit=1)
    return last.event.detail["address"]


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ((), "127.0.0.1"),
        (("203.0.113.9",), "203.0.113.9"),
        (("198.51.100.1, 203.0.113.9",), "203.0.113.9"),
        (("198.51.100.1, 203.0.113.9, 10.1.2.3",), "203.0.113.9"),
        (("198.51.100.1", "203.0.113.9, 10.1.2.3"), "203.0.113.9"),
        (("203.0.113.9:4711",), "203.0.113.9"),
        (("[2001:db9::7]:4711, 2001:db8::1",), "2001:db9::7"),
        (("::ffff:203.0.113.9",), "203.0.113.9"),
        (("10.1.2.3",), "10.1.2.3"),
        (("<script>alert(1)</script>",), "127.0.0.1"),
        (("203.0.113.9, nobody, 10.1.2.3",), "10.1.2.3"),
        (("203.0.113.9,",), "127.0.0.1"),
        (("unknown",), "127.0.0.1"),
    ],
)
def test_the_caller_is_the_rightmost_address_that_is_no_trusted_proxys(
    tmp_path: Path, forwarded: tuple[str, ...], address: str
) -> None:
    with serving(tmp_path, trusted_proxies=PROXIES) as service:
        assert guess(service, *forwarded) == 401
        assert recorded(service) == address


@pytest.mark.parametrize("trusted", [(), (ip_network("10.0.0.0/8"),)])
def test_what_anybody_else_forwards_does_not_count(tmp_path: Path, trusted: tuple[object, ...]) -> None:
    with serving(tmp_path, trusted_proxies=trusted) as service:
        guess(service, "203.0.113.9")
        assert recorded(service) == "127.0.0.1"


def test_addresses_that_a_caller_invents_do_not_give_it_more_guesses(tmp_path: Path) -> None:
    with serving(tmp_path, trusted_proxies=PROXIES) as service:
        statuses = [guess(service, f"198.51.100.{n}, 203.0.113.9") for n in range(25)]
        assert statuses == [401] * 20 + [429] * 5
        assert guess(service, "203.0.113.10") == 401


def test_beyond_loopback_tls_or_trusted_proxies_or_insecure_is_needed() -> None:
    for fields in ({"tls": {"cert": "c", "key": "k"}}, {"trusted_proxies": ["10.0.0.1"]}, {"insecure": True}):
        api_settings_of({"host": "0.0.0.0", **fields}, {}).refuse_exposure()
    with pytest.raises(ConfigError, match=r"api\.trusted_proxies: \[NETWORK\]"):
        ApiSettings(host="0.0.0.0").refuse_exposure()


def test_the_environment_names_a_network_and_the_refusal_names_what_replaces_behind_proxy() -> None:
    found = api_settings_of(None, {"EVERWHEN_API_TRUSTED_PROXIES": "10.0.0.0/8"})
    assert found.trusted_proxies == (ip_network("10.0.0.0/8"),)
    with pytest.raises(
        ConfigError, match=r"EVERWHEN_API_BEHIND_PROXY.*write trusted_proxies: \[127\.0\.0\.1\]"
    ):
        api_settings_of(None, {"EVERWHEN_API_BEHIND_PROXY": "true"})


def test_the_public_address_is_one_that_paths_can_be_appended_to() -> None:
    assert api_settings_of({"url": "https://a.example/tools/"}, {}).url == "https://a.example/tools"
    assert api_settings_of(None, {"EVERWHEN_API_URL": "http://[::1]:8750"}).url == "http://[::1]:8750"
    for wrong in ("a.example", "https://a.example/?q=1", "https://me:secret@a.example", "ftp://a.example"):
        with pytest.raises(ConfigError, match=r"must be a URL without a query and without a password"):
            api_settings_of(None, {"EVERWHEN_API_URL": wrong})
