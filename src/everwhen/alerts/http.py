"""Messages over HTTP: the generic body, or the shapes that Slack and Discord expect."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from everwhen.decide.chat_text import discord_text, slack_text
from everwhen.model.addresses import is_public
from everwhen.model.alerts import AlertDelivery, Sent
from everwhen.model.target_kinds import header_fault
from everwhen.targets.http_addresses import ForbiddenAddressError, GuardedResolver, require_literal
from everwhen.targets.http_exchange import retry_after
from everwhen.targets.secrets import Secrets, UnresolvedError
from everwhen.version import __version__

TIMEOUT = 10.0
SHOWN = 500
_NO_EMBEDS = 1 << 2  # a flag of Discord: no previews of links
BODY_LIMIT = "Ping-Body-Limit"  # of Healthchecks
_MAY_PASS = frozenset((408, 425, 429))


class HttpChannel:
    """Posts messages. `source: api` in the fields marks a URL that came over REST: it reaches public addresses only."""

    def __init__(
        self,
        now: Callable[[], int],
        *,
        allow_private_urls: Callable[[], bool] = lambda: False,
        timeout: float = TIMEOUT,
    ) -> None:
        self._now, self._timeout = now, timeout
        self._allow_private_urls = allow_private_urls

    def send(self, spec: Mapping[str, Any], delivery: AlertDelivery) -> Sent:
        is_outside = spec.get("source") == "api"
        secrets = Secrets()
        try:
            fields = spec if is_outside else secrets.resolve(dict(spec))
        except UnresolvedError as error:
            return Sent(False, str(error))
        body = json.dumps(shaped(fields.get("format") or "auto", fields["url"], delivery.content)).encode()
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": delivery.delivery_id,
            "Everwhen-Delivery-Id": delivery.delivery_id,
        }
        for name, value in (fields.get("headers") or {}).items():
            if fault := header_fault(str(name), str(value)):
                return Sent(False, f"header {str(name)[:100]!r} {fault}", is_final=True)
            headers[str(name)] = str(value)
        is_guarded = is_outside and not self._allow_private_urls()
        sent = asyncio.run(self._post(fields["url"], headers, body, is_guarded=is_guarded))
        return sent._replace(answer=secrets.mask(sent.answer) or "")

    def post(self, url: str, headers: Mapping[str, str], body: bytes, *, is_outside: bool) -> Sent:
        """Post a body as it is."""
        is_guarded = is_outside and not self._allow_private_urls()
        return asyncio.run(self._post(url, headers, body, is_guarded=is_guarded))

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes, *, is_guarded: bool) -> Sent:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchange(URL(url), headers, body, is_guarded=is_guarded)
        except TimeoutError:
            return Sent(False, f"{host_of(url)}: no answer within {self._timeout:g}s")
        except ForbiddenAddressError as error:
            return Sent(False, str(error), is_final=error.is_final, is_forbidden=True)
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            return Sent(False, f"{host_of(url)}: this is not a valid http or https URL", is_final=True)
        except ValueError as error:
            return Sent(False, f"this is not a valid request: {error}", is_final=True)
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            return Sent(False, f"{host_of(url)}: {type(error).__name__}: {error}")

    async def _exchange(self, url: URL, headers: Mapping[str, str], body: bytes, *, is_guarded: bool) -> Sent:
        if is_guarded:
            require_literal(is_public, url)
        resolver = GuardedResolver() if is_guarded else aiohttp.ThreadedResolver()
        connector = aiohttp.TCPConnector(resolver=resolver, force_close=True)
        # Not compressed: a small answer may unpack to a very large one.
        plain = {"Accept-Encoding": "identity", "User-Agent": f"everwhen/{__version__}"}
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=plain,
                auto_decompress=False,
            ) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            text = (await answer.content.read(SHOWN * 4)).decode(errors="replace")[:SHOWN]
            said = f"HTTP {answer.status}: {text}" if text else f"HTTP {answer.status}"
            limit = _whole_number(answer.headers.get(BODY_LIMIT))
            if 200 <= answer.status < 300:
                return Sent(True, said, body_limit=limit)
            may_pass = answer.status >= 500 or answer.status in _MAY_PASS
            pause = retry_after(answer.headers.get("Retry-After"), self._now()) if may_pass else None
            return Sent(False, said, is_final=not may_pass, retry_after=pause, body_limit=limit)


def host_of(url: str) -> str:
    """Return what an answer shows of a URL: its path grants access, as that of Slack's webhooks does.

    >>> host_of("https://hooks.slack.com/services/T0/B0/secret"), host_of("nonsense"), host_of("http://[")
    ('hooks.slack.com', 'the URL', 'the URL')
    """
    try:
        return urlsplit(url).hostname or "the URL"
    except ValueError:
        return "the URL"


def _whole_number(text: str | None) -> int | None:
    """Return the number in a header; None for anything else.

    >>> _whole_number("10000"), _whole_number("-1"), _whole_number("ten"), _whole_number(None)
    (10000, None, None, None)
    """
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


def call_url(url: str, *, timeout: float = TIMEOUT) -> Sent:
    """Call a URL of the configuration, which may contain a secret: no answer shows more of it than its host."""

    async def call() -> Sent:
        async with (
            asyncio.timeout(timeout),
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(url, headers={"User-Agent": f"everwhen/{__version__}"}) as answer,
        ):
            return Sent(200 <= answer.status < 300, f"{host} answered HTTP {answer.status}")

    host = host_of(url)
    try:
        return asyncio.run(call())
    except TimeoutError:
        return Sent(False, f"{host}: no answer within {timeout:g}s")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Sent(False, f"{host}: {type(error).__name__}")


def format_of(name: str, url: str) -> str:
    """Return the shape of the body; `auto`: by the host.

    >>> format_of("auto", "https://hooks.slack.com/services/T/B/x"), format_of("auto", "https://example.com")
    ('slack', 'generic')
    """
    if name != "auto":
        return name
    host = host_of(url).lower()
    if host in ("hooks.slack.com", "hooks.slack-gov.com"):
        return "slack"
    is_discord = host in ("discord.com", "discordapp.com", "ptb.discord.com", "canary.discord.com")
    return "discord" if is_discord and "/webhooks/" in urlsplit(url).path else "generic"


def shaped(name: str, url: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body as the receiver expects it."""
    text = f"{body['title']}\n{body['text']}".rstrip()
    match format_of(name, url):
        case "slack":
            # Not parsed: a plain "@channel" or URL of a job is text. Receivers that know no such key leave it out.
            is_text = {"mrkdwn": False, "parse": "none", "link_names": False}
            return {"text": slack_text(text), **is_text, "unfurl_links": False, "unfurl_media": False}
        case "discord":
            content = discord_text(text)
            return {"content": content, "allowed_mentions": {"parse": []}, "flags": _NO_EMBEDS}
        case _:
            return body
