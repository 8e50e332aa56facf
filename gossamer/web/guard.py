"""The guard refuses addresses and ports that a crawler must never connect to, whatever name or redirect led there."""

import ipaddress
from collections.abc import Iterable

# IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890 and its updates), everything that is not
# "globally reachable", and the well-known addresses at which clouds serve credentials to their guests.
# The first range that holds an address names the reason, so single addresses come before their blocks.
_RANGES_V4 = (
    ("169.254.169.254/32", "metadata"),  # AWS, Azure, Google, Oracle, DigitalOcean, OpenStack ...
    ("169.254.170.2/32", "metadata"),  # AWS containers
    ("169.254.170.23/32", "metadata"),  # AWS EKS pods
    ("100.100.100.200/32", "metadata"),  # Alibaba
    ("192.0.0.192/32", "metadata"),  # Oracle classic
    ("168.63.129.16/32", "metadata"),  # Azure's host agent: a public address that only guests reach
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "private"),  # carrier-grade NAT, RFC 6598
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),  # IETF protocol assignments
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "reserved"),  # 6to4 relay anycast, deprecated by RFC 7526
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", "reserved"),
)
_RANGES_V6 = (
    ("fd00:ec2::/32", "metadata"),  # AWS: instance metadata, DNS, time
    ("fd20:ce::254/128", "metadata"),  # Google
    ("fd00:c1::a9fe:a9fe/128", "metadata"),  # Oracle
    ("fe80::a9fe:a9fe/128", "metadata"),  # OpenStack
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("64:ff9b:1::/48", "private"),  # a network's own NAT64, RFC 8215
    ("100::/64", "reserved"),  # discard-only
    ("100:0:0:1::/64", "reserved"),  # dummy prefix, RFC 9780
    ("2001::/23", "reserved"),  # IETF protocol assignments (Teredo is looked through first)
    ("2001:db8::/32", "documentation"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "reserved"),  # segment routing
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),  # site-local, deprecated
    ("ff00::/8", "multicast"),
)
# IPv6 ranges that carry an IPv4 address, and how far from the right it stands.
_CARRIERS = (
    ("::ffff:0:0/96", 0),  # IPv4-mapped
    ("::ffff:0:0:0/96", 0),  # IPv4-translated, RFC 2765
    ("64:ff9b::/96", 0),  # NAT64, RFC 6052
    ("2002::/16", 80),  # 6to4
)
_COMPATIBLE = 1 << 32  # ::a.b.c.d, deprecated: nothing public lives there
_TEREDO = int(ipaddress.IPv6Address("2001::")) >> 96
_GLOBAL_UNICAST = 0b001  # 2000::/3, the only IPv6 block from which IANA hands out public addresses


def _bounds(ranges: Iterable[tuple[str, str]]) -> tuple[tuple[int, int, str], ...]:
    networks = [(ipaddress.ip_network(block), reason) for block, reason in ranges]
    return tuple((int(net[0]), int(net[-1]), reason) for net, reason in networks)


_V4 = _bounds(_RANGES_V4)
_V6 = _bounds(_RANGES_V6)
_CARRIED = tuple(
    (int(net[0]), int(net[-1]), shift)
    for net, shift in ((ipaddress.IPv6Network(block), shift) for block, shift in _CARRIERS)
)

# The Fetch standard's bad ports: services that an HTTP request must never be made to speak to.
BAD_PORTS = frozenset(
    (0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
     104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
     515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
     2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080)
)  # fmt: skip


def refusal(address: str) -> str:
    """Returns why we do not connect to this IP address (brackets allowed), or "" if it is public unicast."""
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "not an address"
    if isinstance(parsed, ipaddress.IPv4Address):
        return _refusal_v4(int(parsed))
    # A zone id names an interface of this machine: never a public address.
    return "link-local" if parsed.scope_id else _refusal_v6(int(parsed))


def port_refusal(port: int) -> str:
    """Returns why we do not connect to this port, or ""."""
    if not 0 <= port <= 65535:
        return "not a port"
    return "bad port" if port in BAD_PORTS else ""


def _refusal_v4(number: int) -> str:
    return next((reason for low, high, reason in _V4 if low <= number <= high), "")


def _refusal_v6(number: int) -> str:
    if 1 < number < _COMPATIBLE:
        return _refusal_v4(number) or "reserved"
    for low, high, shift in _CARRIED:
        if low <= number <= high:
            return _refusal_v4((number >> shift) & 0xFFFFFFFF)
    if number >> 96 == _TEREDO:
        # RFC 4380: the server's address in bits 32-63, the client's inverted in the last 32.
        server, client = (number >> 64) & 0xFFFFFFFF, ~number & 0xFFFFFFFF
        return _refusal_v4(client) or _refusal_v4(server)
    for low, high, reason in _V6:
        if low <= number <= high:
            return reason
    return "" if number >> 125 == _GLOBAL_UNICAST else "reserved"
