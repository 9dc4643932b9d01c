"""Section 6: a wrong argument is refused by the call that gives it, and nothing is emitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest

import perdure
from perdure import InvalidValue, activity, child, continue_as_new, workflow
from perdure.testing import Harness


class Line(NamedTuple):
    sku: str
    price: int


@activity
async def charge(order: str, cents: int = 0, *, lines: list[Line] | None = None) -> str: ...


@activity
async def label(*lines: Line) -> str: ...


@workflow
async def packing(order: str) -> str: ...


@workflow
class Cart:
    async def run(self, customer: str, limit: int = 0) -> None: ...

    @perdure.signal
    def put(self, line: Line) -> None: ...


wrong = cast("Any", "dear")  # what a type checker would refuse, in programs that none has looked at

CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "an activity": (lambda: charge("o-1", wrong), "cents: expected int, got str"),
    "an activity, by name": (lambda: charge(order="o-1", cents=wrong), "cents: expected int, got str"),
    "an activity, by keyword only": (
        lambda: charge("o-1", lines=[Line("a", wrong)]),
        "lines[0][1]: expected int, got str",
    ),
    "an activity with options": (lambda: charge.options(timeout=5)(cast("Any", 7)), "order: expected str, got int"),
    "an activity, one of many": (lambda: label(Line("a", 1), Line("b", wrong)), "argument 2[1]: expected int, got str"),
    "a child": (lambda: packing(cast("Any", 7)), "order: expected str, got int"),
    "a child that is a class": (lambda: child(Cart, "ada", wrong), "limit: expected int, got str"),
    "the next generation": (lambda: continue_as_new(cast("Any", {})), "how: expected str, got object"),
}
every_call = pytest.mark.parametrize(("call", "told"), CALLS.values(), ids=CALLS)


@every_call
def test_section_6_a_wrong_argument_is_refused_at_the_call(call: Callable[[], Any], told: str) -> None:
    @workflow
    async def calling(how: str) -> str:
        try:
            call()
        except InvalidValue as error:
            return str(error)
        return "nothing was said"

    h = Harness(calling, "now")
    assert [command.kind for command in h.start().commands] == ["complete"]
    assert str(h.result).endswith(told)
    h.replay()


def test_section_6_a_signal_to_a_child_is_checked_like_a_call() -> None:
    @workflow
    async def calling() -> str:
        try:
            child(Cart, "ada").signal(cast("Any", Cart).put, wrong)
        except InvalidValue as error:
            return str(error)
        return "nothing was said"

    h = Harness(calling)
    assert [command.kind for command in h.start().commands] == ["start_child", "complete"]
    assert h.result == "line: expected array, got str"


def test_section_6_the_input_of_a_workflow_is_checked_before_it_begins() -> None:
    with pytest.raises(InvalidValue, match=r"^limit: expected int, got str$"):
        Harness(Cart, "ada", wrong)
    with pytest.raises(InvalidValue, match=r"^order: expected str, got int$"):
        Harness(packing, cast("Any", 7))


def test_k20_an_argument_that_can_be_read_as_its_annotation_passes() -> None:
    @workflow
    async def calling() -> None:
        charge("o-1", lines=[cast("Any", ["a", 1])])
        label(*[cast("Any", ["b", 2])])

    turn = Harness(calling).start()
    assert [command.input for command in turn.commands[:2]] == [["o-1"], [["b", 2]]]
