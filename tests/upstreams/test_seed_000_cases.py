"""The cases of seed 000 that the kernel's own tests do not hold: rounds, records that do not fit, patches, messages.

Where the rest of them stand is in tests/upstreams/covered.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import (
    Continue,
    Later,
    NondeterminismError,
    Reply,
    Stop,
    deprecate_patch,
    parallel,
    patched,
    phase,
    publish,
    query,
    random,
    receive,
    uuid4,
    wait_until,
    workflow,
)
from perdure.model.jobs import Patched
from perdure.testing import Harness, Transcript, evict, fail, resolve, signal, update
from perdure.testing import query as asks
from tests.kernel.telling import Start, act, answers, told

# --- rounds -----------------------------------------------------------------------------------


async def two_steps(name: str) -> str:
    await act(f"{name}1")
    await act(f"{name}2")
    return name


@workflow
async def two_branches() -> list[str]:
    return await parallel(two_steps("a"), two_steps("b"))


A1, B1 = 'schedule_activity#0 act ["a1"] @/p0', 'schedule_activity#1 act ["b1"] @/p1'


def test_k4_the_first_commands_of_branches_leave_in_input_order(run: Start) -> None:
    assert told(run(two_branches).start()) == [A1, B1]


def test_k4_a_branch_that_got_its_answer_goes_on_without_its_sibling(run: Start) -> None:
    h = run(two_branches)
    h.start()
    assert told(h.activate(resolve(0))) == ['schedule_activity#2 act ["a2"] @/p0']


def test_k3_branches_answered_in_one_turn_go_on_in_branch_order_even_if_the_answers_came_the_other_way(
    run: Start,
) -> None:
    h = run(two_branches)
    h.start()
    expected = ['schedule_activity#2 act ["a2"] @/p0', 'schedule_activity#3 act ["b2"] @/p1']
    assert told(h.activate(resolve(1), resolve(0))) == expected
    assert told(h.activate(resolve(3), resolve(2))) == ['complete ["a", "b"]'.replace('["', '[["').replace('"]', '"]]')]


def test_k2_units_of_a_branching_inside_a_branch_are_numbered_below_it_and_run_breadth_first(run: Start) -> None:
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
    h.activate(resolve(2), resolve(1), resolve(0))
    h.activate(resolve(3), resolve(4), resolve(5))
    assert h.result == [["a", "b"], "c"]


def test_k1_twenty_five_runs_have_one_record() -> None:
    records: set[str] = set()
    for _ in range(25):
        h = Harness(two_branches)
        h.start()
        h.activate(resolve(1, "b"), resolve(0, "a"))
        records.add(h.transcript.to_json())
    assert len(records) == 1


# --- what does not fit -------------------------------------------------------------------------


def test_k11_an_answer_to_a_number_that_was_never_given_drops_the_turn_and_the_run_goes_on_from_its_record() -> None:
    """K11, K12: the upstream tears its units down and fails the activation; nothing of the turn counts."""
    h = Harness(two_branches)
    h.start()
    with pytest.raises(NondeterminismError):
        h.activate(resolve(0), resolve(99))
    assert len(h.transcript.turns) == 1
    assert told(h.activate(resolve(0))) == ['schedule_activity#2 act ["a2"] @/p0']
    h.replay()


def test_k11_a_record_in_which_the_branches_changed_places_does_not_replay() -> None:
    h = Harness(two_branches)
    h.start()
    record = json.loads(h.transcript.to_json())
    commands = record["turns"][0]["commands"]
    commands[0]["unit"], commands[1]["unit"] = commands[1]["unit"], commands[0]["unit"]
    commands[0]["input"], commands[1]["input"] = commands[1]["input"], commands[0]["input"]
    with pytest.raises(NondeterminismError) as raised:
        Harness.replay_transcript(two_branches, Transcript.from_json(json.dumps(record)))
    assert (raised.value.turn, raised.value.field) == (0, "unit")


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
    assert h.status == "running"
    assert len(h.transcript.turns) == 1


# --- patches, random numbers -------------------------------------------------------------------


@workflow
async def guarded() -> str:
    path = "new" if patched("use-new") else "old"
    return await act(path)


@workflow
async def before_the_patch() -> str:
    return await act("old")


def test_m9_a_patch_is_true_in_a_live_run_and_marked_once_before_what_depends_on_it(run: Start) -> None:
    @workflow
    async def twice() -> list[bool]:
        first = patched("use-new")
        await act("new")
        return [first, patched("use-new")]

    h = run(twice)
    assert told(h.start()) == ["set_patch use-new", 'schedule_activity#0 act ["new"]']
    assert told(h.activate(resolve(0))) == ["complete [[true, true]]"]


def test_m9_a_patch_is_false_where_the_record_is_older_and_stays_so_on_the_same_replay() -> None:
    old = Harness(before_the_patch)
    old.start()
    h = Harness.replay_transcript(guarded, old.transcript)
    assert told(h.turns[0]) == ['schedule_activity#0 act ["old"]']
    h.activate(resolve(0, "as ever"))
    assert h.result == "as ever"


def test_m9_a_patch_that_the_turn_is_told_of_is_true_and_its_mark_is_emitted_all_the_same(run: Start) -> None:
    h = run(guarded)
    assert told(h.start(Patched("use-new"))) == ["set_patch use-new", 'schedule_activity#0 act ["new"]']


def test_m9_a_deprecated_patch_is_marked_live_matches_a_full_mark_and_is_silent_where_there_is_none() -> None:
    @workflow
    async def without_condition() -> str:
        deprecate_patch("use-new")
        return await act("new")

    @workflow
    async def before() -> str:
        return await act("new")

    h = Harness(without_condition)
    (mark, _) = h.start().commands
    assert (mark.kind, mark.name, mark.options) == ("set_patch", "use-new", {"deprecated": True})
    h.replay()
    full, older = Harness(guarded), Harness(before)
    full.start()
    older.start()
    for recorded in (full, older):
        assert Harness.replay_transcript(without_condition, recorded.transcript).status == "running"


def test_k9_random_numbers_and_uuids_are_equal_on_every_replay_and_interleave_alike(run: Start) -> None:
    """K9: 64 bits of it go into an activity's input, so that a difference would be nondeterminism."""

    @workflow
    async def drawing() -> list[Any]:
        one, identity, two = random().random(), uuid4(), random().random()
        await act(f"{one} {identity} {two}")
        return [one, str(identity), two]

    h, again = run(drawing), Harness(drawing)
    assert told(h.start()) == told(again.start())
    h.activate(resolve(0))
    one, identity, two = h.result
    assert 0 <= one < 1
    assert 0 <= two < 1
    assert one != two
    assert identity[14] == "4"
    assert identity[19] in "89ab"
    assert told(Harness(drawing, seed=1).start()) != told(again.turns[0])


# --- messages ----------------------------------------------------------------------------------


@workflow
async def written() -> list[str]:
    end = await phase(
        [],
        signals={"append": lambda words, word: Continue([*words, word]), "stop": lambda words: Stop(words)},
        updates={"append_too": lambda words, word: Reply(len(words), [*words, f"update {word}"])},
    )
    return end.state


@pytest.mark.parametrize("words", [("a", "b"), ("b", "a")])
def test_m5_messages_of_one_turn_are_dispatched_in_the_order_of_arrival(run: Start, words: tuple[str, str]) -> None:
    h = run(written)
    h.start()
    h.activate(*[signal("append", word) for word in words], signal("stop"))
    assert h.result == list(words)


def test_m5_signals_and_updates_of_one_turn_keep_their_order_among_each_other(run: Start) -> None:
    h = run(written)
    h.start()
    turn = h.activate(signal("append", "1"), update("append_too", "2", id="u"), signal("append", "3"))
    assert answers(turn) == [("u", "update_accepted", None), ("u", "update", 1)]
    h.activate(signal("stop"))
    assert h.result == ["1", "update 2", "3"]


def test_m2_an_update_is_rejected_before_a_phase_is_open_and_leaves_no_other_trace(run: Start) -> None:
    @workflow
    async def late_phase() -> list[str]:
        await act("gate")
        return (await phase([], updates={"add": lambda words, word: Stop([*words, word])})).state

    h = run(late_phase)
    h.start()
    turn = h.activate(update("add", "too early", id="u"))
    assert [answer[:2] for answer in answers(turn)] == [("u", "update_rejected")]
    assert [command.kind for command in turn.commands] == ["reject_update"]
    h.activate(resolve(0))
    h.activate(update("add", "in time"))
    assert h.result == ["in time"]


def test_m5_a_handler_may_branch_at_once_or_later(run: Start) -> None:
    """M5, P6: a synchronous handler and the rest of an asynchronous one may open a `parallel` each."""

    async def at_once(words: list[str]) -> Any:
        return Continue([*words, *await parallel(act("a"), act("b"))])

    async def branching() -> list[str]:
        return await parallel(two_steps("c"), two_steps("d"))

    @workflow
    async def branched() -> list[str]:
        handlers: Any = {"at_once": at_once, "stop": lambda words: Stop(words)}
        end = await phase([], signals=handlers, updates={"later": lambda words: Later(branching(), words)})
        return end.state

    h = run(branched)
    h.start()
    h.activate(signal("at_once"))
    turn = h.activate(resolve(1, "B"), resolve(0, "A"), update("later", id="u"))
    assert [command.unit for command in turn.commands if command.seq is not None] == ["/h1/a0/p0", "/h1/a0/p1"]
    h.activate(resolve(2), resolve(3))
    turn = h.activate(resolve(4), resolve(5), signal("stop"))
    assert answers(turn) == [("u", "update", ["c", "d"])]
    assert h.result == ["A", "B"]


def test_m3_what_was_published_is_read_by_queries_while_the_run_waits_and_after_it_has_ended() -> None:
    """M3, M10: the state of a phase is not published by itself; the upstream keeps the two apart as well."""

    @workflow
    class Shop:
        def __init__(self) -> None:
            self.step = "before"

        async def run(self) -> str:
            publish("waiting")
            await act("work")
            self.step = "after"
            await wait_until(lambda: self.step == "done")
            return "closed"

        @query
        def where(self, prefix: str) -> str:
            return f"{prefix}: {self.step}"

    h = Harness(Shop)
    h.start()
    assert h.activate(asks("where", "now")).answers[0].value == "now: before"
    h.activate(fail(0, ValueError("no")))
    assert h.status == "failed"
    assert h.activate(asks("where", "at the end")).answers[0].value == "at the end: before"


def test_m1_signals_that_came_before_the_start_are_received_in_the_order_of_arrival(run: Start) -> None:
    @workflow
    async def both() -> list[str]:
        return [await receive("go", str), await receive("go", str)]

    h = run(both)
    assert told(h.start(signal("go", "first"), signal("go", "second"))) == ['complete [["first", "second"]]']
