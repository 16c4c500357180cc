"""Timers of the agent's loop."""

from orchard_cli.env.agent.loop import MANY, Loop


def test_what_was_called_off_takes_no_room_and_the_rest_comes_in_order() -> None:
    loop, called = Loop(), list[int]()
    for number in (3, 1, 2, 0):
        loop.after(number / 1000, lambda number=number: called.append(number))  # type: ignore[misc]
    for _ in range(20 * MANY):
        loop.after(3600, loop.stop).cancel()
        assert len(loop._timers) <= 2 * MANY
    loop.after(0.004, loop.stop)
    loop.run()
    assert called == [0, 1, 2, 3]
