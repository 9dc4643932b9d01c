"""K20: a function that takes any number of arguments receives them all, each read as its annotation says."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import perdure
from perdure import InvalidValue, Stop, phase, wait_until, workflow
from perdure.testing import Harness, query, signal, update


@dataclass
class Line:
    price: int


@workflow
async def adding(first: str, *lines: Line) -> str:
    return f"{first} {sum(line.price for line in lines)}"


@workflow
class Gathering:
    def __init__(self) -> None:
        self.lines: list[Line] = []

    async def run(self, wanted: int, *more: int) -> int:
        await wait_until(lambda: len(self.lines) == wanted + sum(more))
        return sum(line.price for line in self.lines)

    @perdure.signal
    def put(self, *lines: Line) -> None:
        self.lines += lines

    @perdure.update
    def count(self, first: int, *more: int) -> int:
        return first + len(more)

    @perdure.query
    def prices(self, *wanted: int) -> list[int]:
        return [line.price for line in self.lines if line.price in wanted]


def test_k20_a_workflow_with_any_number_of_arguments_gets_each_as_its_type() -> None:
    h = Harness(adding, "sum", Line(3), Line(4))
    h.start()
    assert (h.result, h.transcript.turns[0].commands[-1].input) == ("sum 7", ["sum 7"])
    assert h.replay().result == "sum 7"


def test_k20_class_handlers_with_any_number_of_arguments_get_each_as_its_type() -> None:
    h = Harness(Gathering, 1, 2)
    h.start(signal("put", Line(1), Line(2)))
    answers = h.activate(query("prices", 2, 5), update("count", 10, 0, 0, id="u")).answers
    assert {answer.id: answer.value for answer in answers if answer.kind != "update_accepted"} == {
        "query-1": [2],
        "u": 12,
    }
    h.activate(signal("put", {"price": 5}))
    assert (h.result, h.replay().result) == (8, 8)


def test_k20_an_argument_beyond_the_named_ones_that_does_not_fit_is_named() -> None:
    h = Harness(Gathering, 1)
    h.start()
    with pytest.raises(InvalidValue, match=r"signal `put` argument 2.*price"):
        h.activate(signal("put", Line(1), {"price": "dear"}))


def test_m5_a_phase_handler_may_take_any_number_of_arguments() -> None:
    @workflow
    async def listing() -> list[str]:
        def close(state: list[str], *names: str) -> Stop[list[str]]:
            return Stop([*state, *names])

        return (await phase(["a"], signals={"close": close})).state

    h = Harness(listing)
    h.start()
    h.activate(signal("close", "b", "c"))
    assert (h.result, h.replay().result) == (["a", "b", "c"], ["a", "b", "c"])
