"""Seed 000 ends with eleven requirements of its tests: they stand here in its order, but for two.

The seventh is in tests/upstreams/test_seed_000_replay.py, the last in tests/upstreams/test_seed_000_out_of_turn.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

import perdure
from perdure import (
    NondeterminismError,
    parallel,
    publish,
    query,
    receive,
    sleep,
    workflow,
)
from perdure.testing import Harness, evict, fire, resolve, signal
from perdure.testing import query as asks
from tests.kernel.telling import Start, act, answers, told
from tests.upstreams.branching import two_branches, two_steps

A1, B1 = 'schedule_activity#0 act ["a1"] @/p0', 'schedule_activity#1 act ["b1"] @/p1'


# --- 1 to 3: branches -------------------------------------------------------------------------


def test_k4_the_first_commands_of_branches_leave_in_branch_order(run: Start) -> None:
    assert told(run(two_branches).start()) == [A1, B1]


@pytest.mark.parametrize(("answered", "name", "unit"), [(0, "a2", "/p0"), (1, "b2", "/p1")])
def test_k4_a_branch_that_got_its_answer_goes_on_without_its_sibling(
    run: Start, answered: int, name: str, unit: str
) -> None:
    h = run(two_branches)
    h.start()
    assert told(h.activate(resolve(answered, ""))) == [f'schedule_activity#2 act ["{name}"] @{unit}']


def test_k3_branches_answered_in_one_turn_go_on_in_branch_order_even_if_the_answers_came_the_other_way(
    run: Start,
) -> None:
    h = run(two_branches)
    h.start()
    expected = ['schedule_activity#2 act ["a2"] @/p0', 'schedule_activity#3 act ["b2"] @/p1']
    assert told(h.activate(resolve(1, ""), resolve(0, ""))) == expected
    assert told(h.activate(resolve(3, ""), resolve(2, ""))) == ['complete [["a", "b"]]']


def test_k2_units_of_a_branching_inside_a_branch_are_numbered_below_it_and_run_breadth_first(run: Start) -> None:
    """K2, K4: what the branch opens waits for the next round, so the branch beside it comes first."""

    async def inner() -> list[str]:
        return await parallel(two_steps("a"), two_steps("b"))

    @workflow
    async def nested() -> list[Any]:
        return await parallel(inner(), two_steps("c"))

    h = run(nested)
    assert told(h.start()) == [
        'schedule_activity#0 act ["c1"] @/p1',
        'schedule_activity#1 act ["a1"] @/p0/p0',
        'schedule_activity#2 act ["b1"] @/p0/p1',
    ]
    turn = h.activate(resolve(2, ""), resolve(1, ""), resolve(0, ""))
    assert [command.unit for command in turn.commands] == ["/p0/p0", "/p0/p1", "/p1"]
    h.activate(*(resolve(command, "") for command in turn.commands))
    assert h.result == [["a", "b"], "c"]


def test_k1_twenty_five_runs_have_one_record() -> None:
    records: set[str] = set()
    for _ in range(25):
        h = Harness(two_branches)
        h.start()
        h.activate(resolve(1, "b"), resolve(0, "a"))
        records.add(h.transcript.to_json())
    assert len(records) == 1


# --- 4: what becomes ready in a round waits for the next --------------------------------------


def test_k4_a_unit_that_another_wakes_goes_on_in_the_next_round_and_so_does_the_parent(run: Start) -> None:
    @workflow
    async def handing_on() -> None:
        door = asyncio.Event()

        async def opener() -> None:
            await act("gate")
            door.set()
            publish("opened")

        async def waiter() -> None:
            await door.wait()
            publish("went through")

        async def bystander() -> None:
            await act("gate")
            publish("stood by")

        await parallel(opener(), waiter(), bystander())
        publish("all back")

    h = run(handing_on)
    turn = h.start()
    assert told(h.activate(*(resolve(command, "") for command in turn.commands))) == [
        'publish ["opened"] @/p0',
        'publish ["stood by"] @/p2',
        'publish ["went through"] @/p1',
        'publish ["all back"]',
        "complete [null]",
    ]


def test_k4_a_unit_has_one_step_a_round_and_a_yield_ends_it(run: Start) -> None:
    async def counting(name: str, until: int) -> None:
        for number in range(until):
            publish(f"{name}{number}")
            await asyncio.sleep(0)

    @workflow
    async def taking_turns() -> None:
        await parallel(counting("a", 3), counting("b", 1), counting("c", 2))

    shown = [command.input[0] for command in run(taking_turns).start().commands[:-1]]
    assert shown == ["a0", "b0", "c0", "a1", "c1", "a2"]


def test_k4_a_task_that_a_unit_makes_begins_in_the_next_round(run: Start) -> None:
    async def task() -> None:
        publish("task")

    async def maker() -> None:
        made = asyncio.create_task(task())
        publish("maker")
        await made

    async def sibling() -> None:
        publish("sibling")

    @workflow
    async def making() -> None:
        await parallel(maker(), sibling())

    shown = told(run(making).start())[:-1]
    assert shown == ['publish ["maker"] @/p0', 'publish ["sibling"] @/p1', 'publish ["task"] @/p0/t0']


# --- 5 and 6: what does not pause keeps the step ----------------------------------------------

SILENT: dict[str, Callable[[str], object]] = {
    "now": lambda name: perdure.now(),
    "random": lambda name: perdure.random().random(),
    "uuid4": lambda name: perdure.uuid4(),
    "info": lambda name: perdure.info(),
    "cancelled": lambda name: perdure.cancelled(),
    "pending": lambda name: perdure.pending("go"),
    "get_state": lambda name: perdure.get_state("key", str),
    "receive": lambda name: receive("go", str),
}
EMITTING: dict[str, tuple[Callable[[str], object], str]] = {
    "publish": (lambda name: publish(f"{name} itself"), "publish"),
    "set_state": (lambda name: perdure.set_state(name, 1), "set_state"),
    "clear_state": (lambda name: perdure.clear_state(name), "clear_state"),
    "attributes": (lambda name: perdure.attributes(name=name), "set_attributes"),
    "patched": (lambda name: perdure.patched(name), "set_patch"),
    "deprecate_patch": (lambda name: perdure.deprecate_patch(name), "set_patch"),
    "side_effect": (lambda name: perdure.side_effect("measure", lambda: name), "record_side_effect"),
    "publish_to": (lambda name: perdure.publish_to("topic", name), "publish_event"),
    "activity": (lambda name: act(name), "schedule_activity"),
    "sleep": (lambda name: sleep(1), "start_timer"),
    "child": (lambda name: perdure.child(two_branches), "start_child"),
    "promise": (lambda name: perdure.promise(name, str), "create_promise"),
    "signal": (lambda name: perdure.run_of("another").signal("go"), "signal_external"),
    "cancel": (lambda name: perdure.run_of("another").cancel(), "cancel_external"),
}


def between_publications(call: Callable[[str], object]) -> Any:
    """A workflow of two branches that make a call each, between two publications."""

    async def branch(name: str) -> None:
        publish(f"{name} before")
        call(name)
        publish(f"{name} after")

    @workflow
    async def calling() -> None:
        await parallel(branch("a"), branch("b"))

    return calling


@pytest.mark.parametrize("call", SILENT.values(), ids=SILENT)
def test_k5_a_call_that_does_not_pause_does_not_end_the_step(run: Start, call: Callable[[str], object]) -> None:
    turn = run(between_publications(call)).start()
    assert [command.input[0] for command in turn.commands[:-1]] == ["a before", "a after", "b before", "b after"]
    assert turn.commands[-1].kind == "complete"


@pytest.mark.parametrize(("call", "kind"), EMITTING.values(), ids=EMITTING)
def test_k5_a_call_that_emits_does_so_where_it_stands_and_keeps_the_step(
    run: Start, call: Callable[[str], object], kind: str
) -> None:
    turn = run(between_publications(call)).start()
    emitted = [(command.kind, command.unit) for command in turn.commands][:6]
    of_each = ["publish", kind, "publish"]
    assert emitted == [*((one, "/p0") for one in of_each), *((one, "/p1") for one in of_each)]


def test_k5_awaiting_what_has_come_already_does_not_end_the_step(run: Start) -> None:
    """K5: a signal that was buffered, and an answer that arrived while the unit waited for another."""

    async def branch(name: str) -> None:
        early, gate = act(f"{name} early"), act(f"{name} gate")
        await gate
        publish(f"{name} {await early} {await receive('go', str)}")

    @workflow
    async def catching_up() -> None:
        await parallel(branch("a"), branch("b"))

    h = run(catching_up)
    turn = h.start(signal("go", "one"), signal("go", "two"))
    early, gates = turn.commands[::2], turn.commands[1::2]
    assert h.activate(*(resolve(command, "came") for command in early)).commands == []
    turn = h.activate(*(resolve(command, "") for command in reversed(gates)))
    assert told(turn)[:2] == ['publish ["a came one"] @/p0', 'publish ["b came two"] @/p1']


# --- 8: an answer wakes who asked -------------------------------------------------------------


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_k7_an_answer_wakes_the_one_that_has_its_number_and_nobody_else(run: Start, order: tuple[int, ...]) -> None:
    async def asking(name: str) -> None:
        publish(f"{name} got {await act(name)}")

    @workflow
    async def three() -> None:
        await parallel(*(asking(name) for name in "abc"))

    h = run(three)
    h.start()
    waiting = ["/p0", "/p1", "/p2"]
    for number in order:
        shown = told(h.activate(resolve(number, f"value {number}")))
        assert shown[0] == f'publish ["{"abc"[number]} got value {number}"] @/p{number}'
        waiting.remove(f"/p{number}")
        assert [one.unit for one in h.waiting()] == (["/", *waiting] if waiting else [])
    assert h.done


def test_k7_answers_find_the_futures_of_one_unit_whatever_it_awaits_first(run: Start) -> None:
    @workflow
    async def crosswise() -> list[str]:
        first, second, third = act("1"), act("2"), act("3")
        return [await third, await first, await second]

    h = run(crosswise)
    h.start()
    assert h.activate(resolve(1, "two")).commands == []
    assert h.activate(resolve(0, "one")).commands == []
    assert told(h.activate(resolve(2, "three"))) == ['complete [["three", "one", "two"]]']


def test_k11_an_answer_of_the_wrong_kind_wakes_nobody() -> None:
    @workflow
    async def either() -> None:
        await parallel(act("a"), sleep(5))

    for job in (fire(0), resolve(1)):
        h = Harness(either)
        h.start()
        with pytest.raises(NondeterminismError):
            h.activate(job)
        assert (h.status, len(h.transcript.turns)) == ("running", 1)


# --- 9 and 10: turns that run nothing ---------------------------------------------------------


def test_k6_a_turn_of_queries_alone_advances_no_unit_and_takes_no_number(run: Start) -> None:
    """K6, M3."""
    steps: list[str] = []

    @workflow
    class Shop:
        def __init__(self) -> None:
            self.step = "began"

        async def run(self) -> None:
            await act("gate")
            steps.append("went on")
            self.step = "went on"
            await receive("never")

        @query
        def where(self) -> str:
            return self.step

    h = run(Shop)
    h.start()
    turn = h.activate(asks("where", id="q"), asks("where", id="r"))
    assert (answers(turn), turn.commands) == ([("q", "query", "began"), ("r", "query", "began")], [])
    assert (steps, len(h.transcript.turns)) == ([], 1)
    assert answers(h.activate(asks("where", id="q"), resolve(0, ""))) == [("q", "query", "went on")]
    assert len(h.transcript.turns) == 2


def test_k6_a_turn_of_an_eviction_alone_runs_no_line_of_the_workflow() -> None:
    """K6, K18."""
    ran: list[str] = []

    @workflow
    async def loud() -> None:
        ran.append("began")
        await act("gate")
        ran.append("went on")
        raise AssertionError("the workflow was run")

    h = Harness(loud)
    h.start()
    turn = h.activate(evict())
    assert (turn.commands, turn.answers, ran) == ([], [], ["began"])
    assert (h.status, len(h.transcript.turns)) == ("running", 1)
    h.activate(resolve(0, ""))
    assert ran == ["began", "began", "went on"]
