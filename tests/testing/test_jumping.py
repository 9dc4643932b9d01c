"""What a loop on virtual time does while it really waits, with the outside and its clock played by the test."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from perdure.testing import VirtualClock
from perdure.testing.jumping import HORIZON_SECONDS, STEP_SECONDS, JumpingSelector

Events = list[tuple[selectors.SelectorKey, int]]
OWN = 1_000_000


class Outside(selectors.BaseSelector):
    """A selector for which real time passes as its story says: when something comes, and over which descriptor."""

    def __init__(self, story: list[tuple[float, int | None]]) -> None:
        self.story = story
        self.real = 0.0
        self.waited: list[float | None] = []

    def select(self, timeout: float | None = None) -> Events:
        if timeout == 0:
            return []
        self.waited.append(timeout)
        seconds, fd = self.story.pop(0) if self.story else (timeout or 0.0, None)
        self.real += seconds
        return [] if fd is None else [(selectors.SelectorKey(fd, fd, 1, None), 1)]

    def monotonic(self) -> float:
        return self.real

    def now_us(self) -> int:
        raise NotImplementedError

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, fileobj.fileno(), events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, fileobj.fileno(), 1, None)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


def jumping(*story: tuple[float, int | None], due: float = 10.0) -> tuple[JumpingSelector, Outside, VirtualClock]:
    outside, clock = Outside(list(story)), VirtualClock()
    selector = JumpingSelector(outside, clock, own=OWN, patience=1.0, real=outside)
    selector.next_timer = lambda: due
    return selector, outside, clock


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    here, there = socket.socketpair()
    with here, there:
        yield here


def test_without_a_hold_the_clock_jumps_to_the_next_timer_and_nothing_is_waited_for() -> None:
    selector, outside, clock = jumping()
    assert selector.select(10.0) == []
    assert (clock.monotonic(), outside.waited) == (10.0, [])


def test_while_callbacks_are_ready_time_stands_still() -> None:
    selector, outside, clock = jumping()
    assert selector.select(0) == []
    assert (clock.monotonic(), outside.waited) == (0.0, [])


def test_while_the_clock_is_held_time_passes_in_steps_of_real_time() -> None:
    selector, outside, clock = jumping()
    with clock.hold():
        selector.select(10.0)
        selector.select(10.0 - STEP_SECONDS)
        selector.select(0.125)
    assert outside.waited == [STEP_SECONDS, STEP_SECONDS, 0.125]
    assert clock.monotonic() == 2 * STEP_SECONDS + 0.125


def test_work_of_less_than_a_step_takes_no_time_and_more_of_it_adds_up() -> None:
    selector, _, clock = jumping((0.1, OWN), (0.1, OWN), (0.1, OWN), (0.1, OWN), (0.1, OWN))
    seen: list[float] = []
    with clock.hold():
        for _ in range(5):
            selector.select(10.0)
            seen.append(clock.monotonic())
    assert seen == [0, 0, STEP_SECONDS, STEP_SECONDS, 2 * STEP_SECONDS]


def test_what_was_waited_before_a_jump_is_forgotten() -> None:
    selector, _, clock = jumping((0.2, OWN), (0.2, OWN))
    with clock.hold():
        selector.select(10.0)
    selector.select(10.0)
    with clock.hold():
        selector.select(10.0)
    assert clock.monotonic() == 10.0


def test_what_was_waited_moves_the_clock_no_further_than_to_the_next_timer() -> None:
    selector, _, clock = jumping((0.2, OWN), (0.04, OWN), (0.04, OWN))
    with clock.hold():
        selector.select(0.3)
        selector.select(0.3)
        selector.select(0.05)
    assert clock.monotonic() == 0.05


def test_a_connection_that_speaks_keeps_being_waited_for(connection: socket.socket) -> None:
    fd = connection.fileno()
    selector, outside, clock = jumping(*[(0.2, fd)] * 20)
    selector.register(connection, 1)
    for _ in range(20):
        assert selector.select(100.0)
    assert len(outside.waited) == 20
    assert clock.monotonic() < 10


def test_a_connection_that_is_silent_is_waited_for_until_patience_ends(connection: socket.socket) -> None:
    selector, outside, clock = jumping(*[(0.2, OWN)] * 20)
    selector.register(connection, 1)
    for _ in range(5):
        assert selector.select(100.0)
    assert clock.monotonic() < 10
    assert selector.select(100.0) == []
    assert (clock.monotonic(), len(outside.waited)) == (10.0, 5)
    selector.unregister(connection)
    selector.register(connection, 1)
    assert selector.select(100.0), "a new one is waited for again"


def test_where_something_may_come_and_nothing_is_scheduled_the_loop_waits_as_every_loop_does(
    connection: socket.socket,
) -> None:
    selector, outside, _ = jumping()
    deadlocks: list[str] = []
    selector.deadlocked = lambda: deadlocks.append("deadlock")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        for other in (listening, connection):
            selector.register(other, 1)
            selector.patience = 0
            selector.select(None)
            selector.unregister(other)
    selector.child_started("child")
    selector.select(None)
    selector.child_ended("child")
    assert (outside.waited, deadlocks) == ([None, None, None], [])
    selector.select(None)
    assert deadlocks == ["deadlock"]


def test_a_timer_beyond_the_horizon_is_none() -> None:
    selector, _, clock = jumping(due=HORIZON_SECONDS)
    deadlocks: list[str] = []
    selector.deadlocked = lambda: deadlocks.append("deadlock")
    selector.select(86_400.0)
    assert (clock.monotonic(), deadlocks) == (0.0, ["deadlock"])
