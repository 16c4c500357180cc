from ipaddress import ip_address

import pytest

from orchard_cli.env.network.addresses import literal, refusal

BLOCKED = """127.0.0.1 127.9.9.9 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 169.254.170.2 100.64.0.1
100.100.100.200 0.0.0.0 0.1.2.3 224.0.0.1 239.1.1.1 255.255.255.255 240.0.0.1 198.18.0.1 192.0.2.1 192.0.0.192
168.63.129.16 ::1 :: fe80::1 fc00::1 fd00:ec2::254 fd12::1 ff02::1 2001:db8::1 2002:7f00:1:: ::ffff:127.0.0.1
::ffff:8.8.8.8 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 2001::1 ::ffff:0:127.0.0.1 5f00::1 4000::1"""
PUBLIC = "1.1.1.1 8.8.8.8 172.15.0.1 172.32.0.1 100.63.0.1 2606:4700:4700::1111 2a00:1450::1 64:ff9b::808:808"


@pytest.mark.parametrize("text", BLOCKED.split())
def test_addresses_that_are_not_public_are_refused(text: str) -> None:
    assert refusal(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC.split())
def test_public_addresses_may_be_reached(text: str) -> None:
    assert refusal(ip_address(text)) == ""


@pytest.mark.parametrize("text", ["10.0.0.1", "127.0.0.2", "fd12::1", "::1", "64:ff9b::a00:1"])
def test_a_rule_can_lift_private_addresses(text: str) -> None:
    assert refusal(ip_address(text), lifted=True) == ""


@pytest.mark.parametrize("text", ["169.254.169.254", "168.63.129.16", "fe80::1", "224.0.0.1", "fd00:ec2::254"])
def test_no_rule_lifts_metadata_and_link_local_addresses(text: str) -> None:
    assert refusal(ip_address(text), lifted=True)


ODD = ("2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "1", "1.2.3", "127.0.0.1.", "0x", "example.0x7f")


@pytest.mark.parametrize("text", [*ODD, "999.1.1.1", "fe80::1%eth0"])
def test_odd_spellings_of_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        literal(text)


def test_plain_addresses_and_names_are_told_apart() -> None:
    assert literal("10.0.0.1") == ip_address("10.0.0.1") and literal("::1") == ip_address("::1")
    assert literal("example.org") is None and literal("1.example.org") is None
