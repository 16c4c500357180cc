"""Which addresses may be reached at all, and what counts as an address."""

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Net = IPv4Network | IPv6Network


def _nets(text: str) -> tuple[Net, ...]:
    return tuple(ip_network(word) for word in text.split())


# Metadata services and what only means something on one wire: no rule can open these.
# 168.63.129.16 is Azure's, a public address; 192.0.0.192 Oracle's, 100.100.100.200 Alibaba's, fd00:ec2::/32 Amazon's.
NEVER = _nets(
    "0.0.0.0/8 169.254.0.0/16 168.63.129.16/32 192.0.0.0/24 100.100.100.200/32 224.0.0.0/4 240.0.0.0/4"
    " ::/128 fe80::/10 ff00::/8 fd00:ec2::/32 fd20:ce::254/128"
)
# Private and special places: refused unless a rule names them by address.
PRIVATE = _nets(
    "10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.168.0.0/16 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15"
    " 198.51.100.0/24 203.0.113.0/24 ::1/128 fc00::/7 2001:db8::/32 3fff::/20"
)
# An IPv4 address in disguise would be judged by its cover. Of these only NAT64 is looked through.
DISGUISES = _nets("::ffff:0:0/96 ::ffff:0:0:0/96 ::/96 2002::/16 2001::/23 64:ff9b:1::/48")
NAT64 = IPv6Network("64:ff9b::/96")
GLOBAL_V6 = IPv6Network("2000::/3")


def inside(address: Address, nets: Iterable[Net]) -> bool:
    return any(address in net for net in nets)


def refusal(address: Address, lifted: bool = False) -> str:
    """Why nothing may be sent to `address`; "" if it may. `lifted`: a rule names this address itself."""
    if isinstance(address, IPv6Address) and address in NAT64:
        return refusal(IPv4Address(int(address) & 0xFFFFFFFF), lifted)
    if inside(address, NEVER):
        return f"{address} is a link-local, metadata, multicast or reserved address"
    if inside(address, PRIVATE):
        return "" if lifted else f"{address} is a private address"
    if inside(address, DISGUISES):
        return f"{address} hides another address"
    if isinstance(address, IPv6Address) and address not in GLOBAL_V6:
        return f"{address} is not a public address"
    return "" if lifted or address.is_global else f"{address} is not a public address"


def literal(host: str) -> Address | None:
    """The address that `host` spells out in the one usual way, None for a name.

    Raises `ValueError` for spellings that some resolvers take for addresses (decimal, octal, hex, short, zone).
    """
    try:
        address = ip_address(host)
    except ValueError:
        pass
    else:
        if "%" in host:
            raise ValueError(f"{host} names a network interface")
        return address
    last = host.rstrip(".").rpartition(".")[2]
    if last.isdigit() or last.lower().startswith("0x") or _legacy(host):
        raise ValueError(f"{host} is an odd way to write an address")
    return None


def _legacy(host: str) -> bool:
    try:
        socket.inet_aton(host)
    except OSError:
        return False
    return True
