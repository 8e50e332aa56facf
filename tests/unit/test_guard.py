import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.web.guard import BAD_PORTS, port_refusal, refusal

PUBLIC = [
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
    "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255",
    "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450::1",
    "[2606:4700:4700::1111]", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
    "2002:808:808::1", "2001:0:808:808::f7f7:f7f7", "2620:4f:8000::1",
]  # fmt: skip

REFUSED = {
    "loopback": ["127.0.0.1", "127.255.255.254", "::1", "[::1]", "::ffff:127.0.0.1", "::127.0.0.1",
                 "64:ff9b::127.0.0.1", "2002:7f00:1::", "::ffff:0:127.0.0.1"],
    "unspecified": ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fc00::1", "fd12::1",
                "fec0::1", "::ffff:10.1.1.1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:c0a8:101::1"],
    "link-local": ["169.254.0.1", "fe80::1", "fe80::1%eth0", "2606:4700::1%lo"],
    "metadata": ["169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16",
                 "fd00:ec2::254", "fd20:ce::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
                 "2002:a9fe:a9fe::"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1", "::ffff:224.0.0.1"],
    "broadcast": ["255.255.255.255"],
    "documentation": ["192.0.2.1", "198.51.100.7", "203.0.113.9", "2001:db8::1", "3fff::1"],
    "benchmarking": ["198.18.0.1", "198.19.255.255"],
    "reserved": ["192.0.0.1", "192.88.99.1", "240.0.0.1", "100::1", "2001:2::1", "2001:10::1", "5f00::1",
                 "4000::1", "::8.8.8.8", "0:0:1::", "::1:0:0:0"],
    "not an address": ["", "localhost", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "1.2.3.4.5", "[1.2.3.4",
                       "::g", "1.2.3.4 ", "１.2.3.4"],
}  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    assert refusal(address) == ""


@pytest.mark.parametrize(
    ("address", "reason"), [(address, reason) for reason, group in REFUSED.items() for address in group]
)
def test_other_addresses_are_refused_with_a_reason(address: str, reason: str) -> None:
    assert refusal(address) == reason


def test_teredo_is_looked_through_on_both_ends() -> None:
    client = 0xFFFFFFFF ^ int(ipaddress.IPv4Address("192.168.0.1"))
    assert refusal(f"2001:0:808:808::{client >> 16:x}:{client & 0xFFFF:x}") == "private"
    assert refusal("2001:0:7f00:1::f7f7:f7f7") == "loopback"


@settings(deadline=None)
@given(st.ip_addresses(v=4))
def test_every_spelling_of_an_ipv4_address_has_the_same_verdict(address: ipaddress.IPv4Address) -> None:
    reason = refusal(str(address))
    number = int(address)
    assert refusal(f"::ffff:{address}") == reason
    assert refusal(f"64:ff9b::{address}") == reason
    assert refusal(f"2002:{number >> 16:x}:{number & 0xFFFF:x}::") == reason


@settings(deadline=None)
@given(st.ip_addresses())
def test_what_the_standard_library_calls_not_global_is_refused(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        assert refusal(str(address))
    if isinstance(address, ipaddress.IPv4Address) and not address.is_global:
        assert refusal(str(address))


def test_ports() -> None:
    assert port_refusal(80) == port_refusal(443) == port_refusal(8080) == port_refusal(65535) == ""
    assert {port_refusal(port) for port in BAD_PORTS} == {"bad port"}
    assert port_refusal(25) == port_refusal(22) == port_refusal(6667) == "bad port"
    assert port_refusal(-1) == port_refusal(65536) == "not a port"
