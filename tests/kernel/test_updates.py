"""M2: updates are validated, accepted or rejected, and answered, each once."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure import RunClosed, parallel, publish, receive, sleep, wait_until, workflow
from perdure.testing import Harness, Transcript, cancel, fire, resolve, signal, update
from tests.kernel.telling import Start, act, answers, asked, told


@workflow
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.closed = False

    async def run(self) -> list[str]:
        await wait_until(lambda: self.closed)
        return self.items

    @perdure.signal
    def close(self) -> None:
        self.closed = True

    @perdure.update
    def add(self, item: str) -> int:
        publish(item)
        self.items.append(item)
        return len(self.items)

    @add.validator
    def check(self, item: str) -> None:
        if not item:
            raise ValueError("empty item")
        if item in self.items:
            raise perdure.Rejected("twice")

    @perdure.update
    async def buy(self, item: str) -> str:
        receipt = await act(item)
        self.items.append(receipt)
        return receipt

    @perdure.update
    async def both(self, item: str) -> list[str]:
        return await parallel(act(item + "1"), self.second(item))

    async def second(self, item: str) -> str:
        return await act(item + "2")

    @perdure.update
    def breaks(self) -> None:
        raise ValueError("no")

    @perdure.update
    async def breaks_later(self) -> None:
        await sleep(1)
        raise perdure.ApplicationError("later", type="Late", details={"n": 1})

    @perdure.update
    def unusable(self) -> Any:
        return object()


def test_m2_accepted_precedes_the_commands_of_a_plain_handler_and_its_answer_follows_them(run: Start) -> None:
    h = run(Cart)
    h.start()
    turn = h.activate(update("add", "x", id="u-1"))
    assert told(turn) == ["accept_update add @/h0", 'publish ["x"] @/h0', "complete_update add [1] @/h0"]
    assert [command.options.get("id") for command in turn.commands] == ["u-1", None, "u-1"]
    assert answers(turn) == [("u-1", "update_accepted", None), ("u-1", "update", 1)]


def test_m2_an_async_handler_is_accepted_now_and_answered_when_it_is_done(run: Start) -> None:
    h = run(Cart)
    h.start()
    turn = h.activate(update("buy", "x", id="u-1"))
    assert told(turn) == ["accept_update buy @/h0", 'schedule_activity#0 act ["x"] @/h0']
    assert answers(turn) == [("u-1", "update_accepted", None)]
    turn = h.activate(resolve(turn.commands[1], "r"))
    assert told(turn) == ['complete_update buy ["r"] @/h0']
    assert answers(turn) == [("u-1", "update", "r")]


def test_m2_async_handlers_overlap_and_each_is_a_unit_of_its_own(run: Start) -> None:
    h = run(Cart)
    h.start()
    turn = h.activate(update("buy", "a"), update("buy", "b"), update("both", "c"))
    schedules = asked(turn)
    units = [(command.input[0], command.unit) for command in schedules]
    assert units == [("a", "/h0"), ("b", "/h1"), ("c1", "/h2"), ("c2", "/h2/p1")]
    turn = h.activate(resolve(schedules[1], "B"), resolve(schedules[3], "C2"))
    assert told(turn) == ['complete_update buy ["B"] @/h1']
    turn = h.activate(resolve(schedules[2], "C1"), resolve(schedules[0], "A"))
    assert told(turn) == ['complete_update buy ["A"] @/h0', 'complete_update both [["C1", "C2"]] @/h2']


def test_m2_a_validator_rejects_and_nothing_else_is_recorded(run: Start) -> None:
    h = run(Cart)
    h.start()
    turn = h.activate(update("add", "", id="u-1"))
    assert told(turn) == ['reject_update add ["ValueError: empty item"]']
    assert answers(turn) == [("u-1", "update_rejected", "ValueError")]
    turn = h.activate(update("add", "x"), update("add", "x", id="u-3"))
    assert told(turn)[3:] == ['reject_update add ["Rejected: twice"]']


def test_m2_a_rejected_update_takes_no_handler_number(run: Start) -> None:
    h = run(Cart)
    h.start()
    turn = h.activate(update("add", ""), update("nothing"), update("add", 3), update("add", "x"))
    assert [command.unit for command in turn.commands] == ["/", "/", "/", "/h0", "/h0", "/h0"]


def test_m2_a_rejected_update_releases_no_condition(run: Start) -> None:
    looked: list[int] = []

    @workflow
    class Looking:
        async def run(self) -> None:
            await wait_until(lambda: bool(looked.append(1)))

        @perdure.update
        def never(self) -> None: ...

        @never.validator
        def refuse(self) -> None:
            raise ValueError

    h = Harness(Looking)
    h.start()
    before = len(looked)
    h.activate(update("never"), update("unknown"))
    assert len(looked) == before


def test_m2_the_validator_is_asked_only_when_live_and_only_if_the_update_says_so(run: Start) -> None:
    asked_for: list[str] = []

    @workflow
    class Counting:
        async def run(self) -> None:
            await receive("end")

        @perdure.update
        def put(self, item: str) -> str:
            return item

        @put.validator
        def note(self, item: str) -> None:
            asked_for.append(item)
            if item == "bad":
                raise ValueError

    h = Harness(Counting)
    h.start(update("put", "a"))
    h.activate(update("put", "bad"))
    turn = h.activate(update("put", "bad", validate=False))
    assert asked_for == ["a", "bad"]
    assert answers(turn)[-1][1:] == ("update", "bad")
    h.replay()
    assert asked_for == ["a", "bad"]


def test_m2_a_replay_keeps_the_verdict_of_the_time_whatever_the_validator_says_now() -> None:
    strict = [True]

    @workflow
    class Changing:
        async def run(self) -> None:
            await receive("end")

        @perdure.update
        def put(self, item: str) -> str:
            return item

        @put.validator
        def look(self, item: str) -> None:
            if strict[0] == (item == "bad"):
                raise ValueError

    h = Harness(Changing)
    h.start(update("put", "bad", id="u-1"), update("put", "good", id="u-2"))
    strict[0] = False  # today it would be the other way round
    again = h.replay()
    assert [told(turn) for turn in again.turns] == [told(turn) for turn in h.turns]
    assert answers(h.activate(update("put", "good", id="u-3"))) == [("u-3", "update_rejected", "ValueError")]


def test_m2_a_repeated_id_gets_the_first_answer_and_runs_nothing(run: Start) -> None:
    h = run(Cart)
    h.start()
    h.activate(update("add", "x", id="u-1"))
    turn = h.activate(update("add", "y", id="u-1"))
    assert turn.commands == []
    assert answers(turn) == [("u-1", "update", 1)]
    turn = h.activate(update("breaks", id="u-2"), update("add", "z", id="u-2"))
    assert answers(turn)[-2:] == [("u-2", "update", "ValueError")] * 2
    h.activate(signal("close"))
    assert (h.result, h.dropped) == (["x"], 2)


def test_m2_a_repeated_id_of_a_rejected_update_is_rejected_again(run: Start) -> None:
    h = run(Cart)
    h.start()
    h.activate(update("add", "", id="u-1"))
    turn = h.activate(update("add", "fine by now", id="u-1"))
    assert (turn.commands, answers(turn)) == ([], [("u-1", "update_rejected", "ValueError")])


def test_m2_a_repeated_id_of_an_update_at_work_starts_no_second_one(run: Start) -> None:
    h = run(Cart)
    h.start()
    first = h.activate(update("buy", "x", id="u-1"))
    turn = h.activate(update("buy", "x", id="u-1"))
    assert turn.commands == []
    turn = h.activate(resolve(asked(first)[0], "r"), update("buy", "x", id="u-1"))
    assert answers(turn) == [("u-1", "update", "r")] * 2
    assert told(turn) == ['complete_update buy ["r"] @/h0']


def test_m2_an_update_that_nothing_handles_is_rejected_naming_what_is_handled(run: Start) -> None:
    h = run(Cart)
    h.start()
    turn = h.activate(update("ad", 1, id="u-1"))
    assert [command.kind for command in turn.commands] == ["reject_update"]
    assert answers(turn) == [("u-1", "update_rejected", "Rejected")]
    error = turn.answers[0].error
    assert error is not None
    assert all(word in error.message for word in ("`ad`", "add", "buy"))


def test_m2_an_update_with_arguments_that_cannot_be_read_is_rejected(run: Start) -> None:
    h = run(Cart)
    h.start()
    turn = h.activate(update("add", 3, id="a"), update("add", id="b"), update("add", "x", "y", id="c"))
    assert answers(turn) == [(name, "update_rejected", "InvalidValue") for name in "abc"]
    assert {command.kind for command in turn.commands} == {"reject_update"}


def test_m2_a_handler_that_raises_fails_its_update_and_the_run_goes_on(run: Start) -> None:
    h = run(Cart)
    h.start()
    turn = h.activate(update("breaks", id="a"), update("breaks_later", id="b"), update("unusable", id="c"))
    assert told(turn)[1] == 'fail_update breaks ["ValueError: no"] @/h0'
    assert answers(turn)[-1] == ("c", "update", "InvalidValue")
    turn = h.activate(fire(asked(turn, "start_timer")[0]))
    (late,) = turn.answers
    assert late.error is not None
    assert (late.error.type, late.error.message, late.error.details) == ("Late", "later", {"n": 1})
    h.activate(signal("close"))
    assert h.result == []


def test_m2_an_update_that_is_open_when_its_run_ends_is_answered_with_an_error(run: Start) -> None:
    h = run(Cart)
    h.start()
    h.activate(update("buy", "x", id="u-1"), update("buy", "y", id="u-2"))
    turn = h.activate(signal("close"))
    kinds = [command.kind for command in turn.commands]
    assert kinds == ["cancel_activity", "cancel_activity", "fail_update", "fail_update", "complete"]
    assert answers(turn) == [("u-1", "update", "RunClosed"), ("u-2", "update", "RunClosed")]


def test_m2_an_update_that_is_open_when_its_run_is_cancelled_is_answered_with_an_error(run: Start) -> None:
    h = run(Cart)
    h.start()
    h.activate(update("buy", "x", id="u-1"))
    turn = h.activate(cancel())
    assert [command.kind for command in turn.commands] == ["cancel_activity", "fail_update", "cancel"]
    assert answers(turn) == [("u-1", "update", "CancelledError")]


def test_m2_an_update_with_the_start_finds_its_handler_and_the_runs_first_step_done(run: Start) -> None:
    @workflow
    class Early:
        def __init__(self) -> None:
            self.name = "unset"

        async def run(self, name: str) -> None:
            self.name = name
            await receive("end")

        @perdure.update
        def greet(self) -> str:
            return self.name

    h = run(Early, "bob")
    assert answers(h.start(update("greet", id="u")))[-1] == ("u", "update", "bob")


def test_m2_an_update_of_the_turn_in_which_the_run_ends_is_still_answered(run: Start) -> None:
    h = run(Cart)
    h.start()
    turn = h.activate(signal("close"), update("add", "late", id="u-1"))
    assert answers(turn) == [("u-1", "update_accepted", None), ("u-1", "update", 1)]
    assert turn.commands[-1].kind == "complete"
    with pytest.raises(RunClosed):
        h.activate(update("add", "z"))


def test_m2_an_update_is_in_the_transcript_with_its_id_and_whether_it_was_validated(run: Start) -> None:
    h = run(Cart)
    h.start(update("add", "x", id="u-1"), update("add", "y", id="u-2", validate=False))
    read = Transcript.from_json(h.transcript.to_json())
    assert told(Harness.replay_transcript(Cart, read).turns[0]) == told(h.turns[0])
    assert [getattr(job, "validate", None) for job in read.turns[0].jobs] == [None, True, False]


def test_m2_a_validator_that_emits_fails_the_turn_even_where_it_swallows_the_error() -> None:
    @workflow
    class Emitting:
        async def run(self) -> None:
            await receive("end")

        @perdure.update
        def put(self) -> None: ...

        @put.validator
        def look(self) -> None:
            try:
                publish("x")
            except perdure.SchedulerViolation:
                return

    h = Harness(Emitting)
    h.start()
    with pytest.raises(perdure.SchedulerViolation, match="a validator"):
        h.activate(update("put"))
    assert len(h.transcript.turns) == 1
