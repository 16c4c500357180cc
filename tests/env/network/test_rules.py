from dataclasses import replace
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard_cli.env.network.rules import Policy, ask, name, parse, policy
from orchard_cli.errors import ConfigError

ALLOWED = [
    ("example.org", "CONNECT", "example.org:443"),
    ("example.org", "GET", "example.org:80"),
    ("example.org", "CONNECT", "EXAMPLE.org.:443"),
    ("*.example.org", "CONNECT", "a.b.example.org:443"),
    ("example.org:8443", "CONNECT", "example.org:8443"),
    ("example.org:*", "POST", "example.org:9999"),
    ("https://example.org", "CONNECT", "example.org:443"),
    ("GET,HEAD http://example.org", "HEAD", "example.org:80"),
    ("1.1.1.0/24", "CONNECT", "1.1.1.1:443"),
    ("[2606:4700::]/32:853", "CONNECT", "[2606:4700::1]:853"),
]
REFUSED = [
    ("example.org", "CONNECT", "example.org:80"),
    ("example.org", "CONNECT", "example.org:22"),
    ("example.org", "GET", "example.org:443"),
    ("example.org", "CONNECT", "www.example.org:443"),
    ("example.org", "CONNECT", "example.org.evil.test:443"),
    ("example.org", "CONNECT", "notexample.org:443"),
    ("*.example.org", "CONNECT", "example.org:443"),
    ("*.example.org", "CONNECT", "evilexample.org:443"),
    ("http://example.org", "CONNECT", "example.org:443"),
    ("https://example.org", "GET", "example.org:443"),
    ("GET example.org", "POST", "example.org:80"),
    ("GET example.org", "CONNECT", "example.org:80"),
    ("1.1.1.0/24", "CONNECT", "1.1.2.1:443"),
    ("0.0.0.0/0", "CONNECT", "example.org:443"),
]


@pytest.mark.parametrize(("rule", "method", "wanted"), ALLOWED)
def test_allowed(rule: str, method: str, wanted: str) -> None:
    assert policy("allowlist", (rule,)).rule_for(ask(method, wanted, None)) == rule


@pytest.mark.parametrize(("rule", "method", "wanted"), REFUSED)
def test_refused(rule: str, method: str, wanted: str) -> None:
    assert policy("allowlist", (rule,)).rule_for(ask(method, wanted, None)) is None


MEET = [
    ("example.org", "example.org", True),
    ("example.org", "google.com", False),
    ("*.example.org", "a.example.org", True),
    ("a.example.org", "*.example.org", True),
    ("*.example.org", "example.org", False),
    ("*.example.org", "*.a.example.org", True),
    ("*.example.org", "*.example.com", False),
    ("example.org", "example.org:443", True),
    ("example.org", "example.org:8443", False),
    ("example.org:*", "example.org:8443", True),
    ("https://example.org", "http://example.org", False),
    ("http://example.org:443", "https://example.org", False),
    ("GET http://example.org", "POST http://example.org", False),
    ("GET,POST http://example.org", "POST http://example.org", True),
    ("10.0.0.0/8:*", "10.1.2.3:80", True),
    ("10.0.0.0/8:*", "11.1.2.3:80", False),
    ("10.0.0.0/8:*", "[fd00::1]:80", False),
    ("0.0.0.0/0:*", "example.org", False),
]


@pytest.mark.parametrize(("one", "other", "wanted"), MEET)
def test_rules_meet_where_something_passes_both(one: str, other: str, wanted: bool) -> None:
    assert parse(one).meets(parse(other)) is parse(other).meets(parse(one)) is wanted


def test_rules_that_a_bound_leaves_without_effect_are_named() -> None:
    asked = ("example.org", "10.0.0.1:80")
    for kind, held, idle in (
        ("allowlist", ("*.org",), ["10.0.0.1:80"]),
        ("open", (), ["10.0.0.1:80"]),
        ("open", ("10.0.0.0/8:80",), []),
        ("allowlist", ("a.test",), ["example.org", "10.0.0.1:80"]),
    ):
        assert replace(policy("allowlist", asked), within=policy(kind, held)).idle() == idle
    assert policy("allowlist", asked).idle() == []


BAD = """* *. .org http:// https://x/path x:0 x:70000 x:y a..b -a.org user@host x#y ex*mple.org *.*.org 10.0.0.0/33
127.1 169.254.169.254
169.254.0.0/16 fe80::1 127.0.0.1 [::1]:* 127.0.0.0/8:* 2130706433 ftp://x exämple.org [::1 ::1:80x"""


@pytest.mark.parametrize("text", [*BAD.split(), "", " x", "x y", "GET https://x", "get http://x"])
def test_rules_that_are_none_are_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"env\.allow"):
        parse(text)


def test_rules_without_an_allowlist_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"env\.network=none"):
        policy("none", ("example.org",))


def test_only_rules_of_private_addresses_lift_them() -> None:
    rules = policy("allowlist", ("10.1.0.0/16:8080", "0.0.0.0/0:*", "x.test:*"))
    assert rules.lifts(ip_address("10.1.2.3"), 8080)
    assert not rules.lifts(ip_address("10.1.2.3"), 80)
    assert not rules.lifts(ip_address("10.2.0.1"), 8080)  # the rule for everything was not written for it
    assert not Policy().lifts(ip_address("10.1.2.3"), 8080)


BAD_AUTHORITIES = """example.org example.org: example.org:0 example.org:65536 example.org:-1 example.org:+80
example.org:8_0 user@example.org:443
a:b@example.org:443 example.org:443@evil.test:443 2130706433:80 0x7f.1:80 017700000001:80 127.1:80
[::1 ::1:80 [example.org]:443 example.org%00.evil.test:443 exa%6dple.org:443 example.org\\.evil.test:443 .:80 ..:80
example.org/x:443 example.org?x:443 example.org#x:443 *.example.org:443 exämple.org:443 １.1.1.1:80 example.org:４43"""


@pytest.mark.parametrize("text", [*BAD_AUTHORITIES.split(), "a b:80", "a\tb:80", "a\r\nb:80", "a\0b:80", "a:80\n", ""])
def test_whatever_is_not_plainly_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        ask("CONNECT", text, None)


@given(st.text("ab1.:[]@%/-_*0xX\\ \n", max_size=24))
def test_what_is_read_is_in_its_one_form(text: str) -> None:
    try:
        read = ask("CONNECT", text, None)
    except ValueError:
        return
    shown = f"[{read.host}]" if ":" in read.host else read.host
    assert ask("CONNECT", f"{shown}:{read.port}", None) == read
    assert read.address is not None or read.host == name(read.host)
