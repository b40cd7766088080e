"""The table of addresses that are not public, against the registries of IANA."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everwhen.model.addresses import destination_of, is_public, parse_address

# Both registries of special-purpose addresses (RFC 6890), and those of multicast and of what is reserved.
REGISTRIES = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24
192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4
240.0.0.0/4 255.255.255.255/32
::/128 ::1/128 ::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:2::/48 2001:3::/32 2001:4:112::/48
2001:10::/28 2001:20::/28 2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3ffe::/16 3fff::/20 5f00::/16 200::/7
fc00::/7 fe80::/10 fec0::/10 ff00::/8
""".split()


def is_reached(address: IPv4Address | IPv6Address) -> bool:
    return is_public(destination_of(address))


@pytest.mark.parametrize("block", REGISTRIES)
def test_no_address_of_a_registered_block_is_public(block: str) -> None:
    network = ip_network(block)
    assert not is_reached(network[0]) and not is_reached(network[-1])
    assert not is_reached(network[network.num_addresses // 2])


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.32.0.0", "192.0.1.0",
        "192.88.98.255", "192.88.100.0", "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255",
        "2001:200::", "2001:db7::1", "2003::", "2606:4700::1111", "3ffd::", "3fff:1000::", "::ffff:1.1.1.1",
        "64:ff9b::101:101",
    ],
)  # fmt: skip
def test_their_neighbours_are_public(address: str) -> None:
    parsed = parse_address(address)
    assert parsed is not None and is_reached(parsed)


@pytest.mark.parametrize("address", ["::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "fe80::1%eth0", "168.63.129.16"])
def test_what_is_embedded_or_has_a_zone_or_belongs_to_a_cloud_is_not(address: str) -> None:
    parsed = parse_address(address)
    assert parsed is not None and not is_reached(parsed)


@given(st.ip_addresses())
@example(IPv4Address("192.0.0.9"))
def test_nothing_is_public_that_the_standard_library_calls_private(
    address: IPv4Address | IPv6Address,
) -> None:
    assert not is_reached(address) or destination_of(address).is_global
