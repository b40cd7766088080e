"""Hosts that a URL from outside the configuration file may reach: public addresses, and names that resolve to them.

The table is complete and of this project: what the standard library counts as global differs between its releases.
What needs no look-up is refused when a schedule is created, and again with each request; what a name resolves to is
looked at when a request connects.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Rule = Callable[[Address], bool]

# The registries of special-purpose addresses (RFC 6890), with the blocks that were given back since.
_SPECIAL_IPV4 = [
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # between a provider and its customers
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # public by its number, but Azure's hosts answer their virtual machines there
        "169.254.0.0/16",  # link-local, with the metadata of clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # relays of 6to4, given back
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/3",  # multicast, reserved, broadcast
    )
]
# Everything else of IPv6 is reserved, multicast, or of one site or link, such as `fec0::/10`.
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_SPECIAL_IPV6 = [
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # AS112
        "3ffe::/16",  # 6bone, given back
        "3fff::/20",  # documentation
    )
]
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def is_public(address: Address) -> bool:
    """Check whether an address is one that servers of the Internet have."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in block for block in _SPECIAL_IPV4)
    return address in _GLOBAL_UNICAST and not any(address in block for block in _SPECIAL_IPV6)


def destination_of(address: Address) -> Address:
    """Return the address that a packet reaches: IPv6 has two ways to write an IPv4 address that still work.

    >>> destination_of(ipaddress.ip_address("64:ff9b::7f00:1"))
    IPv4Address('127.0.0.1')
    """
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address


def parse_address(text: str) -> Address | None:
    """Return the address in a text, without its zone; None when the text is a name."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def may_reach(host: str, rule: Rule = is_public) -> bool:
    r"""Check whether a host is an address that the rule accepts, or a name that may resolve to one.

    An address in another form than its usual one is refused, whatever it means: programs do not agree on it.

    >>> [may_reach(host) for host in ("1.1.1.1", "2606:4700::1111", "example.com", "10.example.com")]
    [True, True, True, True]
    >>> [may_reach(host) for host in ("127.0.0.1", "1.1", "0x7f.1", "2130706433", "1.1.1.01", "1.1.1.1.")]
    [False, False, False, False, False, False]
    >>> [may_reach(host) for host in ("::1", "fec0::1", "localhost.", "1\u30021\u30021\u30021", "%31.1.1.1")]
    [False, False, False, False, False]
    """
    # As programs read it: IDNA has wide digits and letters, and another full stop.
    name = normalize("NFKC", unquote(host)).replace("\u3002", ".").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return False
    address = parse_address(host)
    if address is None:
        # No name of the Internet ends in a number, and none has a colon.
        return ":" not in name and _NUMBER.fullmatch(name.rpartition(".")[2]) is None
    return rule(destination_of(address))


def private_host(url: str) -> str | None:
    """Return the host of a URL that is certainly not public; None when it is, or when only a look-up can decide.

    >>> private_host("http://127.0.0.1:80/"), private_host("http://[::1]/"), private_host("http://example.com/")
    ('127.0.0.1', '::1', None)
    >>> private_host("https://[half") is None
    True
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return None
    return None if may_reach(host) else host
