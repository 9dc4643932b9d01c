"""What only looks is a plain function: a coroutine would say yes to everything (K17, M2, M5, M11)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import InvalidValue, Reply, phase, update_state, wait_until, workflow
from perdure.testing import Harness, signal, update


async def refusing(*_: object) -> bool:
    raise ValueError("no")


def late(state: int) -> object:
    return refusing(state)


def add(state: int) -> Reply[int]:
    return Reply(1, state)


def test_k17_a_predicate_that_returns_a_coroutine_is_refused() -> None:
    @workflow
    async def waiting() -> str:
        try:
            await wait_until(lambda: refusing())
        except InvalidValue as error:
            return str(error)
        return "went on"

    h = Harness(waiting)
    h.start()
    assert str(h.result).startswith("a predicate must be a plain function")


@pytest.mark.parametrize("wrong", [refusing, 5], ids=["a coroutine function", "no function"])
def test_m5_a_phase_refuses_a_validator_that_cannot_look_at_once(wrong: Any) -> None:
    @workflow
    async def open_phase() -> str:
        try:
            await phase(0, updates={"add": add}, validators={"add": wrong})
        except InvalidValue as error:
            return str(error)
        return "opened"

    h = Harness(open_phase)
    h.start()
    assert h.result == "the validator of `add` must be a plain function: it may only look"


def test_m2_a_validator_that_returns_a_coroutine_rejects_the_update() -> None:
    @workflow
    async def open_phase() -> None:
        await phase(0, updates={"add": add}, validators={"add": late})

    h = Harness(open_phase)
    h.start()
    (answer,) = h.activate(update("add", id="u")).answers
    assert answer.kind == "update_rejected"
    assert "a validator must be a plain function" in str(answer.error)


def test_m5_an_update_state_function_that_returns_a_coroutine_is_refused() -> None:
    def change(state: int) -> Reply[int]:
        update_state(late)
        return Reply(1, state)

    @workflow
    async def open_phase() -> None:
        await phase(0, signals={"change": change})

    h = Harness(open_phase)
    h.start()
    h.activate(signal("change"))
    assert str(h.failure).startswith("InvalidValue: an update_state function must be a plain function")
