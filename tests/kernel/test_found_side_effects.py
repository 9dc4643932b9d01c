"""M11: what goes wrong in a side effect is recorded as well, so that such a run replays (K1, K11, K20)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import InvalidValue, OperationFailed, activity, side_effect, workflow
from perdure.testing import Harness, Transcript, evict, resolve


@activity
async def report(text: str) -> None: ...


def reading(effect: Callable[[], Any]) -> Any:
    @workflow
    async def read() -> str:
        try:
            side_effect("read", effect)
        except (OperationFailed, InvalidValue) as error:
            told = f"{type(error).__name__}: {error}"
        else:
            told = "read"
        await report(told)
        return told

    return read


def broken() -> int:
    raise LookupError("no such thing")


FAILURES: dict[str, tuple[Callable[[], Any], str]] = {
    "raises": (broken, "OperationFailed: side effect `read` failed: LookupError: no such thing"),
    "cannot be stored": (
        lambda: [{1}],
        "InvalidValue: the value of side effect `read`[0]: set is not supported; use a list",
    ),
    "no plain function": (
        lambda: report.fn("x"),
        (
            "InvalidValue: side effect `read` must be a plain function: it answers at once, "
            "and nobody awaits what it returns"
        ),
    ),
}
every_failure = pytest.mark.parametrize(("effect", "told"), FAILURES.values(), ids=FAILURES)


@every_failure
def test_m11_a_side_effect_that_fails_replays_with_the_same_error(effect: Callable[[], Any], told: str) -> None:
    h = Harness(reading(effect))
    turn = h.start()
    assert [command.kind for command in turn.commands] == ["record_side_effect", "schedule_activity"]
    assert (turn.commands[0].options, turn.commands[1].input) == ({"failed": True}, [told])
    h.activate(evict())
    h.activate(resolve(0, None))
    assert (h.result, h.replay().result) == (told, told)


def test_m11_a_side_effect_that_failed_is_not_executed_again_on_replay() -> None:
    calls: list[int] = []

    def fails_once() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise TimeoutError("slow disk")
        return "fine"

    read = reading(fails_once)
    h = Harness(read)
    h.start()
    Harness.replay_transcript(read, Transcript.from_json(h.transcript.to_json()))
    assert calls == [1]


def test_m11_an_uncaught_error_of_a_side_effect_fails_the_run_with_its_cause() -> None:
    @workflow
    async def reads() -> int:
        return side_effect("read", broken)

    h = Harness(reads)
    h.start()
    assert h.failure is not None
    assert h.failure.type == "OperationFailed"
    assert str(h.failure.cause) == "LookupError: no such thing"
    assert h.replay().status == "failed"
