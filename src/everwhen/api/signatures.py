"""Signatures of requests: everwhen's own, with the time in it, and GitHub's. Pure but for the hashing.

Ours is `Everwhen-Signature: t={unix},v1={hex}`, the HMAC-SHA256 of `{t}.{body}`; it is good for five minutes, and
several `v1` may stand in it while a secret is changed. GitHub's is `X-Hub-Signature-256: sha256={hex}`, the HMAC of the
body alone: it has no age, so all that can be done against repetition is to remember it, as long as its job.

A schedule takes one of the two. Ours over a body is GitHub's over `{t}.{body}`: where two schedules share a secret, a
body that begins like that is not taken as GitHub's either.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Literal, NamedTuple

from everwhen.model.instants import SECOND

Scheme = Literal["everwhen", "github"]
HEADERS: dict[Scheme, str] = {"everwhen": "everwhen-signature", "github": "x-hub-signature-256"}
GOOD_FOR = 300 * SECOND
MOST_MACS = 4
_MAC = re.compile(r"[0-9a-fA-F]{64}")
_UNIX = re.compile(r"[0-9]{1,12}")
_BEGINS_LIKE_OURS = re.compile(rb"[0-9]{1,12}\.")


class BadSignatureError(Exception):
    """A header that is no signature, or one that is too old; its words are for the caller."""


class Signature(NamedTuple):
    """What a request claims to be signed with, and over which bytes."""

    name: str
    macs: tuple[str, ...]
    prefix: bytes

    def key(self, secret: str, body: bytes) -> str | None:
        """What names this request, if the secret signs it; None if it does not. Takes equally long either way."""
        right = hmac.new(secret.encode(), self.prefix + body, sha256).hexdigest()
        found = [hmac.compare_digest(right, mac) for mac in self.macs]
        is_ambiguous = not self.prefix and _BEGINS_LIKE_OURS.match(body)
        is_right = secret and any(found) and not is_ambiguous
        return f"{self.name}:{self.prefix.decode()}{right}" if is_right else None


UNSIGNED = Signature("", (), b"")


def signatures_in(headers: Mapping[str, str], now: int) -> dict[Scheme, Signature]:
    """The signatures of a request, each by the scheme that it claims to be of."""
    found: dict[Scheme, Signature] = {}
    if (text := headers.get(HEADERS["everwhen"])) is not None:
        found["everwhen"] = _ours(text, now)
    if (text := headers.get(HEADERS["github"])) is not None:
        found["github"] = _githubs(text)
    return found


def _ours(text: str, now: int) -> Signature:
    parts = [part.strip().partition("=") for part in text.split(",", MOST_MACS + 1)]
    times = [value for key, _, value in parts if key == "t"]
    macs = tuple(value.lower() for key, _, value in parts if key == "v1" and _MAC.fullmatch(value))
    if len(times) != 1 or not _UNIX.fullmatch(times[0]) or not macs:
        raise BadSignatureError(
            "Everwhen-Signature reads t={unix},v1={hex HMAC-SHA256 of the time, a dot and the body}."
        )
    if abs(now - int(times[0]) * SECOND) > GOOD_FOR:
        raise BadSignatureError(
            "The time of this signature is more than 5 minutes from now; sign again, and check the clocks."
        )
    return Signature("v1", macs, f"{times[0]}.".encode())


def _githubs(text: str) -> Signature:
    kind, _, mac = text.strip().partition("=")
    if kind != "sha256" or not _MAC.fullmatch(mac):
        raise BadSignatureError("X-Hub-Signature-256 reads sha256={hex HMAC-SHA256 of the body}.")
    return Signature("github", (mac.lower(),), b"")
