"""Who asks for nothing gets what the environment gives; who asks for none gets none."""

import pytest

from orchard_cli.env.network.plan import bound
from orchard_cli.errors import ConfigError


@pytest.mark.parametrize("level", ["none", "allowlist", "open"])
def test_none_is_none_whatever_the_environment_gives(level: str) -> None:
    allowed = ("example.org",) if level == "allowlist" else ()
    given = bound(level, allowed)
    assert given.of("none", ())[1].kind == "none"
    assert given.of("", ())[1] == given.policy
    for network in ("", "none"):
        with pytest.raises(ConfigError, match="has rules"):
            given.of(network, ("example.org",))
