"""Keys that must never run again: none is lost within a generation, and none is made up."""

from hashlib import blake2b

from orchard_cli.env.agent.keys import GENERATION, Keys


def key(number: int) -> bytes:
    return blake2b(str(number).encode(), digest_size=12).digest()


def test_the_newest_generation_is_known_and_nothing_else() -> None:
    keys = Keys()
    for number in range(3 * GENERATION):
        keys.add(key(number))
    assert all(key(number) in keys for number in range(2 * GENERATION, 3 * GENERATION))
    assert not any(key(number) in keys for number in range(3 * GENERATION, 3 * GENERATION + 10_000))
    assert key(0) not in keys  # two generations are all that is remembered


def test_keys_that_collide_are_told_apart() -> None:
    keys, colliding = Keys(), [(number << 16 | 7).to_bytes(8, "little") for number in range(1, 50)]
    for one in colliding[:-1]:
        keys.add(one)
        keys.add(one)
    assert all(one in keys for one in colliding[:-1])
    assert colliding[-1] not in keys


def test_a_key_of_zeros_is_a_key() -> None:
    keys = Keys()
    assert bytes(12) not in keys
    keys.add(bytes(12))
    assert bytes(12) in keys
