"""Addresses that a URL from outside the configuration file may reach, and hosts that can never be one of them.

The http target applies the rule to the addresses that a name resolves to when it connects. What needs no look-up, an
address in any of its spellings or `localhost`, is refused when a schedule is created.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any
from unicodedata import normalize
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


def is_public(address: Address) -> bool:
    return address.is_global and not address.is_multicast and not address.is_reserved


def faces_of(address: Address) -> list[Address]:
    """Return the address and those embedded in it: IPv6 has four ways to write an IPv4 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    carried: list[Any] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in ipaddress.IPv6Network("64:ff9b::/96"):
        carried.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    found: list[Address] = [each for each in carried if each is not None]
    return found if address.ipv4_mapped is not None else [address, *found]


def parse_address(text: str) -> Address | None:
    """Return the address in a text, without its zone; None when the text is a name."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def private_host(url: str) -> str | None:
    r"""Return the host of a URL that is certainly not public; None when it is, or when only a look-up can decide.

    >>> [private_host(f"http://{host}/") for host in ("127.0.0.1:80", "localhost.", "127.1", "0x7f000001", "[::1]")]
    ['127.0.0.1', 'localhost.', '127.1', '0x7f000001', '::1']
    >>> private_host("https://example.com/"), private_host("https://1.1.1.1/"), private_host("https://[half")
    (None, None, None)
    >>> private_host("http://127\N{IDEOGRAPHIC FULL STOP}0\N{IDEOGRAPHIC FULL STOP}0.1/") is None
    False
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return None
    name = (
        normalize("NFKC", host).replace("\u3002", ".").rstrip(".").lower()
    )  # IDNA reads this full stop as a dot
    if name == "localhost" or name.endswith(".localhost"):
        return host
    address = parse_address(name) or _short_address(name)
    return None if address is None or all(map(is_public, faces_of(address))) else host


def _short_address(name: str) -> ipaddress.IPv4Address | None:
    """Return an IPv4 address with fewer than four parts, or with octal or hexadecimal ones, as resolvers read it."""
    parts = name.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    try:
        numbers = [int(part, 16 if part[:2] == "0x" else 8 if part[0] == "0" else 10) for part in parts]
    except ValueError:  # 08, or 0x alone
        return None
    *heads, last = numbers
    if any(head > 255 for head in heads) or last >= 256 ** (5 - len(numbers)):
        return None
    shifted = sum(head << 8 * (3 - place) for place, head in enumerate(heads))
    return ipaddress.IPv4Address(shifted + last)
