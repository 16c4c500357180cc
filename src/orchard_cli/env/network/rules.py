"""What a sandbox may reach: rules of an allow-list, and the policy that holds them.

example.org                   https on 443 and plain http on 80
*.example.org                 any name below it, not the name itself
example.org:8443              this port only; `:*` for any
https://example.org           https only;  http://example.org  plain http only
GET,HEAD http://example.org   plain http with these methods only
10.1.2.3:8080  10.0.0.0/8:*   addresses, also private ones; no TLS asked for; loopback only with a port, and by who
                              asks the proxy for it (`curl --noproxy ''`): inside, 127.0.0.1 is the sandbox itself
"""

import re
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Literal

from ...errors import ConfigError
from .addresses import NEVER, PRIVATE, Address, Net, inside, literal

Kind = Literal["none", "allowlist", "open"]
HINT = "such as example.org, *.example.org, example.org:8443, 'GET http://example.org' or 10.1.2.3:8080"
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_RULE = re.compile(
    r"(?:(?P<methods>[A-Z]+(?:,[A-Z]+)*) )?(?:(?P<scheme>https?)://)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\](?:/[0-9]+)?|[^\s:\[\]@?#]+)(?::(?P<port>[0-9]{1,5}|\*))?\Z"
)
ANY_PORT, USUAL_PORT = -1, 0
ALL_PORTS = frozenset(range(1, 65536))


@dataclass(frozen=True)
class Ask:
    """What somebody inside wants: `method` is CONNECT for a tunnel, else that of a plain http request."""

    host: str  # lower case, without a final dot
    port: int
    method: str
    address: Address | None = None  # where `host` spells one out


@dataclass(frozen=True)
class Rule:
    text: str
    host: str = ""  # a name; starts with a dot where all names below it are meant
    net: Net | None = None
    port: int = USUAL_PORT
    scheme: str = ""
    methods: frozenset[str] = frozenset()

    def matches(self, ask: Ask) -> bool:
        tunnel = ask.method == "CONNECT"
        if self.scheme and tunnel != (self.scheme == "https"):
            return False
        if self.methods and ask.method not in self.methods:
            return False
        return self._port(ask.port, 443 if tunnel else 80) and self._host(ask)

    def _port(self, port: int, usual: int) -> bool:
        return self.port == ANY_PORT or port == (self.port or usual)

    def _host(self, ask: Ask) -> bool:
        if self.net is not None:
            return ask.address is not None and ask.address in self.net
        return ask.host.endswith(self.host) if self.host.startswith(".") else ask.host == self.host

    def meets(self, other: "Rule") -> bool:
        """Whether anything at all is let through by both."""
        if self.net is not None or other.net is not None:
            same = self.net is not None and other.net is not None and overlap(self.net, other.net)
        else:
            # a leading dot stands for all names below: what ends in both is below one of them
            pairs = ((self.host, other.host), (other.host, self.host))
            same = any(host.endswith(above) if above.startswith(".") else host == above for above, host in pairs)
        if self.methods and other.methods and not self.methods & other.methods:
            return False
        return same and any(self._ports(usual) & other._ports(usual) for usual in self._usual() & other._usual())

    def _usual(self) -> set[int]:
        """The port that each way in has which this rule knows."""
        return {"http": {80}, "https": {443}}.get(self.scheme, {80, 443})

    def _ports(self, usual: int) -> frozenset[int]:
        return ALL_PORTS if self.port == ANY_PORT else frozenset({self.port or usual})

    @property
    def private(self) -> bool:
        """Written for addresses that nobody reaches but by name of such a rule."""
        return self.net is not None and any(_below(self.net, private) for private in PRIVATE)

    def names(self, address: Address, port: int) -> bool:
        """Whether the rule was written for this private address, so that it may be reached."""
        if self.net is None or not self.private:
            return False
        return address in self.net and (self._port(port, 80) or self._port(port, 443))


@dataclass(frozen=True)
class Policy:
    """`open`: any public address. Rules of addresses count there too: they open private ones.

    `within` is a bound that somebody else has set: what it does not allow is not allowed here.
    """

    kind: Kind = "none"
    rules: tuple[Rule, ...] = ()
    within: "Policy | None" = None

    def rule_for(self, ask: Ask) -> str | None:
        """Text of the rule that lets `ask` through, None if there is none."""
        if self.kind == "none" or (self.within is not None and self.within.rule_for(ask) is None):
            return None
        found = next((rule.text for rule in self.rules if rule.matches(ask)), None)
        return found if found is not None else ("open" if self.kind == "open" else None)

    def lifts(self, address: Address, port: int) -> bool:
        if self.kind == "none" or (self.within is not None and not self.within.lifts(address, port)):
            return False
        return any(rule.names(address, port) for rule in self.rules)

    def idle(self) -> list[str]:
        """Rules that let nothing through, because of the bound."""
        bound = self.within
        if bound is None:
            return []
        held = [rule for rule in self.rules if rule.private or bound.kind == "allowlist"]
        return [rule.text for rule in held if not any(rule.meets(other) for other in bound.rules)]

    def needs_tls(self, ask: Ask) -> bool:
        """A tunnel for a name must be TLS for that name; where all names are allowed there is nothing to prove."""
        strict = self.kind == "allowlist" or (self.within is not None and self.within.kind == "allowlist")
        return strict and ask.address is None


def policy(kind: Kind, allow: tuple[str, ...] = ()) -> Policy:
    """Raises `ConfigError` for a rule that cannot be read or that must not be."""
    if allow and kind == "none":
        raise ConfigError("env.allow is set, but env.network=none", hint="env.network=allowlist")
    return Policy(kind, tuple(parse(text) for text in allow))


def parse(text: str) -> Rule:
    match = _RULE.match(text)
    if match is None:
        raise ConfigError(f"env.allow: `{text}` is not a rule", hint=HINT)
    port = {"*": ANY_PORT, None: USUAL_PORT}.get(match["port"], -2)
    port = int(match["port"]) if port == -2 else port
    if port == 0 and match["port"] or port > 65535:
        raise ConfigError(f"env.allow: `{text}` has no usable port", hint=HINT)
    methods = frozenset(match["methods"].split(",")) if match["methods"] else frozenset()
    if methods and match["scheme"] == "https":
        raise ConfigError(f"env.allow: `{text}`: methods cannot be seen inside TLS", hint="give http:// or no methods")
    scheme = "http" if methods else match["scheme"] or ""
    try:
        host, net = _place(match["host"])
    except ValueError as error:
        raise ConfigError(f"env.allow: `{text}`: {error}", hint=HINT) from error
    if net is not None:
        _check_net(text, net, port)
    return Rule(text, host, net, port, scheme, methods)


def _place(host: str) -> tuple[str, Net | None]:
    bare = host.replace("[", "").replace("]", "")
    if "/" in bare or ":" in bare:
        return "", ip_network(bare)
    if bare.startswith("*."):
        return f".{name(bare[2:])}", None
    address = literal(bare)
    return ("", ip_network(bare)) if address is not None else (name(bare), None)


def _check_net(text: str, net: Net, port: int) -> None:
    if any(_below(net, never) for never in NEVER):
        raise ConfigError(f"env.allow: `{text}` is an address that no sandbox may reach", hint=HINT)
    if inside(net[0], PRIVATE) and net[0].is_loopback and port in (ANY_PORT, USUAL_PORT):
        raise ConfigError(f"env.allow: `{text}` would open this machine's own services", hint=f"{text}:PORT")


def overlap(net: Net, other: Net) -> bool:
    return _below(net, other) or _below(other, net)


def _below(net: Net, other: Net) -> bool:
    return net.version == other.version and net.network_address in other and net.prefixlen >= other.prefixlen


def name(host: str) -> str:
    """A host name in its one form: ASCII, lower case, no final dot. Raises `ValueError`."""
    plain = host.lower().removesuffix(".")
    if not plain or len(plain) > 253 or not all(_LABEL.match(label) for label in plain.split(".")):
        raise ValueError(f"{host[:100]!r} is not a host name")
    return plain


def ask(method: str, authority: str, usual_port: int | None) -> Ask:
    """Read `host:port` as a proxy is asked for it. Raises `ValueError` for whatever is not plainly that."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]@/?#\\%]+)(?::([0-9]{1,5}))?", authority)
    if match is None or (match[2] is None and usual_port is None):
        raise ValueError(f"{authority[:100]!r} is not host:port")
    port = int(match[2] or usual_port or 0)
    if not 0 < port < 65536:
        raise ValueError(f"{port} is not a port")
    bare = match[1].strip("[]")
    address = literal(bare)
    if (":" in bare) != match[1].startswith("["):
        raise ValueError(f"{authority[:100]!r} is not host:port")
    return Ask(str(address) if address is not None else name(bare), port, method, address)
