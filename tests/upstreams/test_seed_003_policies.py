"""Seed 003: policies that drive whole runs, at random, from a log, from one that does not fit, and from one that ended.

The choices themselves are tested in tests/policies, the rounds that they drive in tests/kernel/test_policies_drive.py.
"""

from __future__ import annotations

import json
from random import Random
from random import seed as seed_all
from typing import Any

import pytest

from perdure import (
    BadLog,
    Divergence,
    NondeterminismError,
    ReplayExhausted,
    choose,
    each,
    first,
    get_state,
    parallel,
    random,
    scope,
    set_state,
    sleep,
    uuid4,
    workflow,
)
from perdure.policies import Action, Choice, Policy, Token, XorBranch, from_log, get_log, new
from perdure.policies import choose as pick
from perdure.testing import Harness, Transcript, resolve
from tests.kernel.strands import answer_all, decided, played, step

SEEDS = range(4)


async def two_steps(name: str) -> int:
    await sleep(0)
    one = await step(name, 1)
    await sleep(0)
    return one + await step(name, 2)


@workflow(name="pattern")
async def three_branches() -> list[int]:
    return await parallel(*[two_steps(name) for name in "abc"])


@workflow(name="pattern")
async def three_alternatives() -> list[int]:
    chosen = [await choose(*[lambda name=name: two_steps(name) for name in "abc"]) for _ in range(2)]
    return [*chosen, await two_steps("after")]


@workflow(name="pattern")
async def five_instances() -> list[int]:
    return await each("abcde", two_steps, limit=5)


@workflow(name="pattern")
async def choices_in_branches() -> list[int]:
    async def either(name: str) -> int:
        return await choose(lambda: two_steps(f"{name}0"), lambda: two_steps(f"{name}1"))

    return await parallel(*[either(name) for name in "abc"], join=first(2))


@workflow(name="pattern")
async def regions() -> list[int]:
    async def region(name: str) -> int:
        async with scope() as inner:
            done = await parallel(two_steps(f"{name}x"), two_steps(f"{name}y"), join="first")
            inner.cancel()
            return done
        return 0

    return await parallel(region("a"), region("b"))


PATTERNS: dict[str, Any] = {
    "parallel of three": three_branches,
    "choice of three, twice": three_alternatives,
    "five instances": five_instances,
    "choices in branches": choices_in_branches,
    "cancel regions": regions,
}
every_pattern = pytest.mark.parametrize("pattern", PATTERNS)


def at_random(pattern: str, seed: int) -> Harness[Any]:
    return played(PATTERNS[pattern], new("nondeterministic", seed=seed))


# --- the full cycle ----------------------------------------------------------------------------------


@every_pattern
def test_p3_a_run_at_random_is_reproduced_by_its_log_any_number_of_times(pattern: str) -> None:
    """P2, P3: run, log, replay: the same commands, the same end, the same log; through JSON too."""
    for seed in SEEDS:
        h = at_random(pattern, seed)
        log = get_log(h.policy_state)
        as_json: list[Any] = json.loads(json.dumps([_plain(choice) for choice in log]))
        for given in (from_log(log), from_log(log), new("replay", log=as_json)):
            again = played(PATTERNS[pattern], given)
            assert (decided(again), again.result, again.status) == (decided(h), h.result, h.status)
            assert get_log(again.policy_state) == log


def _plain(choice: Choice) -> dict[str, Any]:
    record = choice.record()
    return {"step": record.step, "enabled": list(record.enabled), "chosen": record.chosen}


@every_pattern
def test_p4_the_record_of_a_run_at_random_replays_strictly_without_any_policy(pattern: str) -> None:
    """P4, K11: the choices stand in the turns."""
    for seed in SEEDS:
        h = at_random(pattern, seed)
        text = h.transcript.to_json()
        again = Harness.replay_transcript(PATTERNS[pattern], Transcript.from_json(text))
        assert (decided(again), again.result) == (decided(h), h.result)
        assert again.transcript.to_json() == text


@every_pattern
def test_k1_ten_runs_under_one_policy_have_one_record(pattern: str) -> None:
    """K1, P1: for the deterministic policy and for one seed of the other; seeds differ from each other."""
    for make in (lambda: new("deterministic"), lambda: new("nondeterministic", seed=5)):
        assert len({played(PATTERNS[pattern], make()).transcript.to_json() for _ in range(10)}) == 1
    orders = {str(decided(at_random(pattern, seed))) for seed in SEEDS}
    assert len(orders) > 1


def test_p1_a_policy_changes_the_order_and_never_what_a_unit_is_called_or_draws() -> None:
    """P1, K2, K9: ids and streams come from structure, so that a log of one process fits another."""

    @workflow(name="pattern")
    async def draws() -> None:
        async def one(name: str) -> None:
            await sleep(0)
            await step(f"{name} {uuid4()} {random().random()}", 1)

        await parallel(*[one(name) for name in "abc"])

    orders: list[list[tuple[str, Any]]] = []
    for seed in range(12):
        h = Harness(draws, policy=new("nondeterministic", seed=seed))
        orders.append([(command.unit, command.input[0]) for command in h.start().commands])
    assert len({str(order) for order in orders}) > 1
    assert len({str(sorted(order)) for order in orders}) == 1


# --- what does not fit -------------------------------------------------------------------------------


@workflow(name="pattern")
async def four_branches() -> list[int]:
    return await parallel(*[two_steps(name) for name in "abcd"])


@workflow(name="pattern")
async def two_alternatives() -> list[int]:
    chosen = [await choose(*[lambda name=name: two_steps(name) for name in "ab"]) for _ in range(2)]
    return [*chosen, await two_steps("after")]


@pytest.mark.parametrize(
    ("pattern", "changed", "more"),
    [("parallel of three", four_branches, [Token("/p3")]), ("choice of three, twice", two_alternatives, None)],
)
def test_p3_changed_code_diverges_and_the_error_holds_both_sets_and_the_step(
    pattern: str, changed: Any, more: list[Token] | None
) -> None:
    """P3: one that has more units, and one that has fewer branches."""
    log = get_log(at_random(pattern, 3).policy_state)
    with pytest.raises(Divergence) as raised:
        played(changed, from_log(log))
    error = raised.value
    assert error.expected == log[error.step].enabled
    assert error.expected != error.actual
    if more is None:
        assert list(error.actual) == [XorBranch(0), XorBranch(1)]
    else:
        assert [action for action in error.actual if action not in error.expected] == more
    assert isinstance(error, NondeterminismError)


@every_pattern
def test_p3_a_log_that_is_cut_short_is_exhausted_at_the_step_that_is_missing(pattern: str) -> None:
    """P3: wherever it is cut."""
    log = get_log(at_random(pattern, 1).policy_state)
    for kept in (0, 1, len(log) // 2, len(log) - 1):
        with pytest.raises(ReplayExhausted) as raised:
            played(PATTERNS[pattern], from_log(log[:kept]))
        assert raised.value.step == kept


@every_pattern
def test_p2_a_log_with_an_entry_lost_doubled_or_wrong_is_refused_naming_the_entry(pattern: str) -> None:
    """P2: before anything runs."""
    log: list[Any] = [_plain(choice) for choice in get_log(at_random(pattern, 1).policy_state)]
    stranger = {**log[2], "chosen": "/p7"}
    damages: list[list[Any]] = [
        [*log[:2], *log[3:]],
        [*log[:3], *log[2:]],
        [*log[:2], stranger, *log[3:]],
        [*log[:2], 5],
    ]
    for damaged in damages:
        with pytest.raises(BadLog) as raised:
            from_log(damaged)
        assert raised.value.entry == (3 if len(damaged) > len(log) else 2)


def test_p3_a_choice_on_record_in_another_place_means_other_commands_and_is_found() -> None:
    """P4, K11: a log that is well-formed and of the same run, but not what was chosen."""
    h = at_random("parallel of three", 2)
    record = json.loads(h.transcript.to_json())
    choices = record["turns"][0]["choices"]
    of_three = [choice for choice in choices if len(choice["enabled"]) == 3]
    for choice in of_three:
        others = [unit for unit in choice["enabled"] if unit != choice["chosen"]]
        choice["chosen"] = others[0]
    with pytest.raises(NondeterminismError):
        Harness.replay_transcript(three_branches, Transcript.from_json(json.dumps(record)))


def test_k12_what_a_turn_changed_before_it_diverged_is_gone() -> None:
    """K12, M10: nothing of it is committed; the upstream's "an invalid mutation leaves nothing"."""

    @workflow(name="state")
    async def writes(times: int) -> int:
        set_state("count", 0)
        await step("gate", 1)
        for _ in range(times):
            set_state("count", get_state("count", int, 0) + 1)
            await sleep(0)
        return get_state("count", int, 0)

    log = get_log(played_once(writes, 1).policy_state)
    h = Harness(writes, 2, policy=from_log(log))
    h.start()
    for _ in range(2):
        with pytest.raises(ReplayExhausted):
            h.activate(resolve(0, 1))
        assert (len(h.transcript.turns), h.status) == (1, "running")
    h = Harness.replay_transcript(writes, h.transcript)
    h.activate(resolve(0, 1))
    assert h.result == 2


def played_once(code: Any, times: int) -> Harness[Any]:
    h = Harness(code, times, policy=new("nondeterministic", seed=4))
    answer_all(h, h.start())
    return h


# --- single choices ----------------------------------------------------------------------------------


def test_p1_of_a_hundred_tokens_and_fifty_branches_the_lowest_token_is_taken_in_whatever_order_they_come() -> None:
    """P1, K3: 9 before 10."""
    enabled: list[Action] = [Token(f"/p{number}") for number in range(1, 101)]
    enabled += [XorBranch(number) for number in range(50)]
    for seed in range(20):
        Random(seed).shuffle(enabled)
        assert pick(enabled, new("deterministic"))[0] == Token("/p1")
    enabled.remove(Token("/p1"))
    assert pick([action for action in enabled if action != Token("/p2")], new("deterministic"))[0] == Token("/p3")


def test_p2_a_single_enabled_action_is_logged_and_used_up_on_replay() -> None:
    """P2: as the seed says; its project passes over them."""
    one: list[Action] = [Token("/p0")]
    _, state = pick(one, new("nondeterministic", seed=1))
    assert get_log(state) == [Choice(0, (Token("/p0"),), Token("/p0"))]
    _, replaying = pick(one, from_log(get_log(state)))
    with pytest.raises(ReplayExhausted):
        pick(one, replaying)


def test_p1_a_state_that_was_used_can_be_used_again_and_two_runs_share_nothing() -> None:
    """P1: states are values; randomness belongs to the state and not to the process."""
    enabled: list[Action] = [Token(f"/p{number}") for number in range(9)]
    start: Policy = new("nondeterministic", seed=6)

    def ten(state: Policy) -> list[Action]:
        taken: list[Action] = []
        for _ in range(10):
            action, state = pick(enabled, state)
            taken.append(action)
        return taken

    expected = ten(start)
    seed_all(1)
    other = ten(new("nondeterministic", seed=7))
    assert ten(start) == expected != other
    assert {type(action) for action in expected} == {Token}
