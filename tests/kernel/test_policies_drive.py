"""P1, P2, P4: policies drive the real rounds and `choose`, their logs are records, and records replay strictly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from perdure import (
    UsageError,
    choose,
    each,
    parallel,
    receive,
    workflow,
)
from perdure.policies import Action, Choice, Policy, Token, XorBranch, from_log, get_log, new
from perdure.testing import Harness, Transcript, evict, resolve, signal
from tests.kernel.strands import (
    SEEDS,
    answer_all,
    decided,
    played,
    step,
    strand,
    strands,
)

# --- logs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_p2_a_run_under_a_nondeterministic_policy_gives_a_log_and_replaying_it_gives_the_same_commands(
    seed: int,
) -> None:
    """P2, P3: seed 003's full cycle, on real rounds."""
    h = played(strands, new("nondeterministic", seed=seed))
    log = get_log(h.policy_state)
    again = played(strands, new("replay", log=log))
    assert decided(again) == decided(h)
    assert get_log(again.policy_state) == log
    assert decided(played(strands, from_log(json.loads(json.dumps([_plain(choice) for choice in log]))))) == decided(h)


def _plain(choice: Choice) -> list[Any]:
    record = choice.record()
    return [record.step, record.enabled, record.chosen]


def test_p1_different_seeds_give_different_orders_and_branches() -> None:
    """P1: the policy picks the units of each round, and the branch of `choose`."""
    runs = [decided(played(strands, new("nondeterministic", seed=seed))) for seed in SEEDS]
    assert {run[0][0][4][0] for run in runs} == {0, 1, 2}  # the branch that was chosen
    after_choice = [[c[3:] for turn in run for c in turn if c[0] == "schedule_activity"] for run in runs]
    assert len({str(order) for order in after_choice}) > 6
    assert decided(played(strands, new("nondeterministic", seed=3))) == runs[3]


def test_p2_steps_count_over_the_run_and_singletons_are_logged() -> None:
    """P2: singletons included, steps from 0 on, sets in canonical order."""
    log = get_log(played(strands, new("nondeterministic", seed=1)).policy_state)
    assert [choice.step for choice in log] == list(range(len(log)))
    assert log[0] == Choice(0, (Token("/"),), Token("/"))
    assert log[1].enabled == (XorBranch(0), XorBranch(1), XorBranch(2))
    for choice in log:
        assert list(choice.enabled) == sorted(choice.enabled)
        assert choice.chosen in choice.enabled
    rounds = [choice.enabled for choice in log if len(choice.enabled) == 3 and Token("/p0#1") in choice.enabled]
    assert rounds
    assert set(rounds) == {(Token("/p0#1"), Token("/p1#1"), Token("/p2#1"))}


def test_p4_the_choices_of_each_turn_stand_in_its_record_and_together_are_the_log() -> None:
    """P4: `Turn.choices` and the transcript hold what the policy chose, a token as its text, a branch as its number."""
    h = played(strands, new("nondeterministic", seed=5))
    records = [choice for turn in h.turns for choice in turn.choices]
    assert [Choice.from_record(record) for record in records] == get_log(h.policy_state)
    written = json.loads(h.transcript.to_json())["turns"]
    assert [turn.get("choices", []) for turn in written] == [
        [{"step": c.step, "enabled": list(c.enabled), "chosen": c.chosen} for c in turn.choices] for turn in h.turns
    ]
    xor = written[0]["choices"][1]
    assert xor["step"] == 1
    assert xor["enabled"] == [0, 1, 2]
    recorded = written[0]["commands"][0]
    assert (recorded["kind"], recorded["input"]) == ("record_choice", [xor["chosen"]])


def test_p2_the_deterministic_policy_is_the_order_of_units_and_keeps_no_log_unless_asked() -> None:
    """P1, P2: the default order; a log on request, which replays."""
    plain = played(strands)
    assert decided(played(strands, new("deterministic"))) == decided(plain)
    assert get_log(plain.policy_state) == []
    assert get_log(played(strands, new("deterministic")).policy_state) == []
    assert "choices" not in json.loads(played(strands, new("deterministic")).transcript.to_json())["turns"][0]

    logged = played(strands, new("deterministic", log=True))
    assert decided(logged) == decided(plain)
    log = get_log(logged.policy_state)
    assert [choice.chosen for choice in log] == [choice.enabled[0] for choice in log]
    assert decided(played(strands, from_log(log))) == decided(plain)


# --- records replay -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_p4_a_recorded_run_replays_strictly_from_memory_and_from_json(seed: int) -> None:
    """P4, K11: the transcript alone, without the policy, gives the same turns."""
    h = played(strands, new("nondeterministic", seed=seed))
    for replayed in (
        h.replay(),
        Harness.replay_transcript(strands, h.transcript),
        Harness.replay_transcript(strands, Transcript.from_json(h.transcript.to_json())),
    ):
        assert decided(replayed) == decided(h)
        assert [turn.choices for turn in replayed.turns] == [turn.choices for turn in h.turns]
        assert replayed.result == h.result


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_p4_a_run_that_was_evicted_goes_on_choosing_as_if_it_had_not_been(at: int) -> None:
    """P4, K18."""
    unbroken = played(strands, new("nondeterministic", seed=8))
    h = Harness(strands, policy=new("nondeterministic", seed=8))
    turn = h.start()
    for number in range(20):
        if number == at:
            h.activate(evict())
        if h.done:
            break
        asked = [command for command in turn.commands if command.kind == "schedule_activity"]
        turn = h.activate(*(resolve(command, command.input[1]) for command in asked))
    assert [run for run in decided(h) if run] == decided(unbroken)
    assert get_log(h.policy_state) == get_log(unbroken.policy_state)


def test_p4_a_harness_at_the_end_of_a_record_goes_on_with_the_policy_and_its_log() -> None:
    """P4: `h.replay()` stands where h stands, its policy too."""
    h = Harness(strands, policy=new("nondeterministic", seed=8))
    h.start()
    replayed = h.replay()
    assert get_log(replayed.policy_state) == get_log(h.policy_state)
    answer_all(replayed, replayed.turns[-1])
    answer_all(h, h.turns[-1])
    assert decided(replayed) == decided(h)
    assert get_log(replayed.policy_state) == get_log(h.policy_state)


def test_p4_a_transcript_without_its_policy_goes_on_in_the_order_of_units_and_the_log_with_it() -> None:
    """P4: what comes after the record is logged too, so that the longer record replays like any other."""
    h = Harness(strands, policy=new("nondeterministic", seed=8))
    h.start()
    longer = Harness.replay_transcript(strands, h.transcript)
    answer_all(longer, longer.turns[-1])
    assert longer.done
    log = get_log(longer.policy_state)
    recorded = len(get_log(h.policy_state))
    assert [choice.step for choice in log] == list(range(len(log)))
    assert all(choice.chosen == choice.enabled[0] for choice in log[recorded:])
    assert decided(longer.replay()) == decided(longer)
    longer.activate(evict())
    assert decided(Harness.replay_transcript(strands, longer.transcript)) == decided(longer)[:-1]


def test_p4_a_turn_in_which_nothing_was_chosen_replays() -> None:
    """P4, K11: a late answer wakes nobody, so its turn holds no choices."""
    h = Harness(strands, policy=new("nondeterministic", seed=8))
    first = h.start()
    asked = next(command for command in first.commands if command.kind == "schedule_activity")
    turn = h.activate(resolve(asked, 1))
    assert turn.choices
    assert h.activate(resolve(asked, 1)).choices == []
    assert h.activate(*(resolve(c, 1) for c in turn.commands)).choices
    assert decided(h.replay()) == decided(h)


# --- a policy of one's own --------------------------------------------------------------------------


@dataclass(frozen=True)
class Last:
    """Always the last that is enabled."""

    def choose(self, enabled: Sequence[Action], /) -> tuple[Action, Policy]:
        return enabled[-1], self


@dataclass(frozen=True)
class Broken:
    """Fails where it is asked about branches, or about anything."""

    only_branches: bool = False

    def choose(self, enabled: Sequence[Action], /) -> tuple[Action, Policy]:
        if self.only_branches and isinstance(enabled[0], Token):
            return enabled[0], self
        raise ZeroDivisionError("a mistake in the policy")


@pytest.mark.parametrize("given", [Last(), new(Last())])
def test_p1_a_policy_of_ones_own_drives_the_rounds_and_is_recorded(given: Any) -> None:
    """P1, P4."""
    h = Harness(strands, policy=given)
    turns = answer_all(h, h.start())
    assert turns[0].commands[0].input == [2]
    fan_out = next(turn for turn in turns if len(turn.commands) == 3)
    assert [command.unit for command in fan_out.commands] == ["/p2#1", "/p1#1", "/p0#1"]
    assert decided(h.replay()) == decided(h)
    assert decided(played(strands, from_log(get_log(h.policy_state)))) == decided(h)


@pytest.mark.parametrize("only_branches", [True, False])
def test_p1_a_policy_that_fails_fails_the_turn_and_never_the_workflow(only_branches: bool) -> None:
    """P1, K14: whether it is asked between steps, or inside a step of the workflow."""
    h = Harness(strands, policy=Broken(only_branches))
    with pytest.raises(UsageError, match="a mistake in the policy"):
        h.start()
    assert not h.done
    assert h.transcript.turns == ()


def test_p2_a_policy_that_has_chosen_already_is_refused_because_a_run_counts_its_choices_from_zero() -> None:
    """P2."""
    used = played(strands, new("nondeterministic", seed=4)).policy_state
    for policy in (used, new("nondeterministic", first_step=1)):
        with pytest.raises(UsageError, match="counts its choices from 0"):
            Harness(strands, policy=policy)
    with pytest.raises(UsageError, match=r"perdure\.policies\.new\('nondeterministic'\)"):
        Harness(strands, policy="nondeterministic")


# --- mixed ------------------------------------------------------------------------------------------


@workflow
async def mixed(count: int) -> list[Any]:
    async def watcher() -> str:
        name: str = await receive("name", str)
        return name

    async def chooser(number: int) -> str:
        return await choose(lambda: f"{number} one", lambda: f"{number} two", lambda: watcher())

    chosen = await parallel(*(chooser(number) for number in range(count)), watcher())
    await receive("go on", bool)
    doubled = await each(range(count), lambda number: step("each", number), limit=2)
    return [chosen, doubled]


@pytest.mark.parametrize("seed", SEEDS)
def test_p4_rounds_choices_messages_and_windows_replay_together(seed: int) -> None:
    """P4, K11: also when the run is evicted after every turn."""
    h = Harness(mixed, 4, policy=new("nondeterministic", seed=seed))
    turns = [h.start(), *(h.activate(signal("name", f"name {number}"), evict()) for number in range(5))]
    turns += answer_all(h, h.activate(signal("go on", True)))
    chosen = [command.input[0] for command in turns[0].commands if command.kind == "record_choice"]
    branches = [choice.chosen for choice in turns[0].choices if isinstance(choice.chosen, int)]
    assert chosen == branches
    assert len(chosen) == 4
    replayed = Harness.replay_transcript(mixed, Transcript.from_json(h.transcript.to_json()))
    assert replayed.result == h.result
    assert [turn.choices for turn in replayed.turns] == [turn.choices for turn in h.turns]
    in_log = [choice.chosen for choice in get_log(h.policy_state) if isinstance(choice.chosen, XorBranch)]
    assert in_log == [XorBranch(index) for index in chosen]


def test_p1_tokens_and_branches_are_asked_for_apart_because_a_choice_belongs_to_the_step_that_makes_it() -> None:
    """P1, K4: no other unit runs between a `choose` and what it picked."""
    h = Harness(mixed, 3, policy=new("nondeterministic", seed=9))
    for choice in h.start().choices:
        assert len({type(action) for action in choice.enabled}) == 1


def test_p4_a_record_of_many_branches_is_small_and_the_transcript_says_all() -> None:
    """The set of the round stands in the record once; each entry of the transcript has its whole set."""
    count = 300

    @workflow
    async def forks() -> None:
        await parallel(*(strand(f"s{number}") for number in range(count)))

    h = Harness(forks, policy=new("nondeterministic", seed=3))
    h.start()
    (record,) = h.transcript.turns
    assert len(record.choices) == count + 1
    assert len(msgspec.json.encode(record.choices)) < 60 * count
    told = json.loads(h.transcript.to_json())["turns"][0]["choices"]
    assert [len(entry["enabled"]) for entry in told] == [1, *range(count, 0, -1)]
    assert h.replay().transcript.to_json() == h.transcript.to_json()
    again = Harness.replay_transcript(forks, Transcript.from_json(h.transcript.to_json()))
    assert [Choice.from_record(choice) for turn in again.turns for choice in turn.choices] == get_log(h.policy_state)
