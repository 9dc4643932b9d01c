"""Section 6: what a workflow or a harness is declared with is refused where it is declared."""

from __future__ import annotations

from typing import Any, cast

import pytest

from perdure import InvalidValue, UsageError, each, query, signal, sleep, testing, update, wait_until, workflow
from perdure.define.workflow import definition_of
from perdure.testing import Harness, Transcript


@workflow
async def idle() -> None: ...


@pytest.mark.parametrize("wrong", [5, "shop", None.__class__()], ids=str)
def test_section_6_what_is_no_workflow_is_refused_by_the_decorator(wrong: Any) -> None:
    with pytest.raises(UsageError, match=rf"not {type(wrong).__name__}$"):
        workflow(version="2")(wrong)


def test_m9_a_version_is_text_or_a_whole_number() -> None:
    @workflow(version=2)
    async def numbered() -> None: ...

    @workflow(version="2")
    async def named() -> None: ...

    assert [definition_of(one).version for one in (numbered, named, idle)] == ["2", "2", None]
    with pytest.raises(InvalidValue, match="the version of a workflow must be text, not bool"):
        workflow(version=True)(idle.fn)


@workflow()
class Till:
    def __init__(self) -> None:
        self.cents = 0

    async def run(self) -> int:
        await wait_until(lambda: self.cents < 0)
        return self.cents

    @signal()
    def pay(self, cents: int) -> None:
        self.cents += cents

    @signal(name="close")
    async def shut(self) -> None:
        self.cents = -1

    @update(name="pay-out")
    async def out(self, cents: int) -> int:
        self.cents -= cents
        return self.cents

    @out.validator
    def enough(self, cents: int) -> None:
        if cents > self.cents:
            raise ValueError("too much")

    @query(name="how-much")
    def left(self) -> int:
        return self.cents


def test_handlers_are_declared_with_parentheses_and_by_another_name() -> None:
    """Rules M1 to M3."""
    h = Harness(Till)
    h.start(testing.signal("pay", 7))
    assert [one.kind for one in h.activate(testing.update("pay-out", 9)).answers] == ["update_rejected"]
    assert h.activate(testing.update(Till.out, 3)).answers[-1].value == 4
    assert h.activate(testing.query("how-much"), testing.query(Till.left)).answers[1].value == 4
    h.activate(testing.signal("close"))
    assert h.result == -1
    h.replay()
    with pytest.raises(InvalidValue, match="the name of a signal"):
        signal(name="")(Till.__init__)


@pytest.mark.parametrize("wrong", ["2", True, -1, float("nan"), float("inf")], ids=str)
def test_section_6_a_turn_limit_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="the limit of a turn is a number of seconds"):
        Harness(idle, turn_limit=cast("float", wrong))


def test_section_6_each_refuses_what_is_no_function_at_the_call() -> None:
    @workflow
    async def looping() -> str:
        try:
            each([1], cast("Any", 5))
        except InvalidValue as error:
            return str(error)
        return "nothing was said"

    h = Harness(looping)
    h.start()
    assert h.result == "each() needs a function of one item, not int"


@pytest.mark.parametrize("seconds", [-1, 10**30], ids=str)
def test_section_6_a_transcript_with_a_timer_that_cannot_be_is_refused(seconds: int) -> None:
    @workflow
    async def sleeping() -> None:
        await sleep(77)

    h = Harness(sleeping)
    h.start()
    text = h.transcript.to_json().replace("77", str(seconds))
    with pytest.raises(InvalidValue, match="turn 0, command 0: the seconds of a timer are 0 to"):
        Transcript.from_json(text)
