"""K12: every command has a source line, also those that no line of the workflow makes by a call."""

from __future__ import annotations

from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

from perdure import activity, signal, sleep, update, wait_until, workflow
from perdure.errors import NondeterminismError
from perdure.kernel.callsite import defined_at
from perdure.testing import Harness, Transcript, cancel, evict, resolve
from perdure.testing import signal as signalled
from perdure.testing import update as updated


@activity
async def act(x: int) -> int: ...


def line_of(function: Any) -> str:
    return f"{__file__}:{function.__code__.co_firstlineno}"


def line_with(text: str) -> str:
    lines = Path(__file__).read_text().splitlines(keepends=True)
    return f"{__file__}:{lines.index(text) + 1}"


@workflow
class Desk:
    def __init__(self) -> None:
        self.closed = False

    async def run(self) -> int:
        await wait_until(lambda: self.closed)
        return 7

    @update
    async def ask(self, number: int) -> int:
        return await act(number)

    @ask.validator
    def check(self, number: int) -> None:
        if number < 0:
            raise ValueError("below nothing")

    @signal
    def close(self) -> None:
        self.closed = True


def test_k12_answers_of_updates_stand_at_their_handler_and_the_end_at_the_code_that_ended() -> None:
    h = Harness(Desk)
    h.start()
    turn = h.activate(updated("ask", 1, id="u-1"), updated("ask", -1, id="u-2"))
    assert [one.kind for one in turn.commands] == ["accept_update", "schedule_activity", "reject_update"]
    accepted, scheduled, rejected = turn.commands
    assert accepted.source == line_with("    @update\n")
    assert rejected.source == line_with("    async def run(self) -> int:\n")
    answered = h.activate(resolve(scheduled, 5)).commands
    assert [(one.kind, one.source) for one in answered] == [("complete_update", accepted.source)]
    ended = h.activate(signalled("close")).commands
    assert [(one.kind, one.source) for one in ended] == [("complete", rejected.source)]


def test_k12_a_run_that_is_cancelled_before_it_waits_ends_where_it_is_defined() -> None:
    @workflow
    async def waiting() -> None:
        await act(1)

    h = Harness(waiting)
    h.start()
    assert [one.source for one in h.activate(cancel("enough")).commands][-1] == line_of(waiting.fn)


def test_k12_an_early_return_names_the_workflow_that_returned() -> None:
    @workflow(name="shop")
    async def before() -> None:
        await act(1)

    @workflow(name="shop")
    async def after() -> None:
        return

    h = Harness(before)
    h.start()
    with pytest.raises(NondeterminismError, match="early return") as caught:
        Harness.replay_transcript(after, Transcript.from_json(h.transcript.to_json()))
    assert caught.value.now is not None
    assert caught.value.now.source == line_of(after.fn)


def test_the_place_of_a_function_is_found_below_what_wraps_it() -> None:
    def plain() -> None: ...

    @wraps(plain)
    def wrapped() -> None: ...

    place = (__file__, plain.__code__.co_firstlineno)
    assert defined_at(plain) == defined_at(wrapped) == defined_at(partial(partial(wrapped))) == place
    assert defined_at(len) is None


def test_k14_a_replay_has_the_limit_of_the_harness_that_asks_for_it() -> None:
    """A run whose turns are known to take long replays within the limit that it was given."""

    @workflow
    async def quick() -> None:
        await sleep(1)

    for limit in (7, None):
        h = Harness(quick, turn_limit=limit)
        h.start()
        h.activate(evict())
        assert [one._watchdog.limit_seconds for one in (h.replay(), h.replay().replay())] == [limit, limit]  # pyright: ignore[reportPrivateUsage]
    made = Harness.replay_transcript(quick, h.transcript, turn_limit=3)
    assert made._watchdog.limit_seconds == 3  # pyright: ignore[reportPrivateUsage]
