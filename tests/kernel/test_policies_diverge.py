"""P2, P3, K11, K12: a log or a record that does not fit the code is found, and a corrupt one refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from perdure import (
    BadLog,
    Divergence,
    InvalidValue,
    NondeterminismError,
    ReplayExhausted,
    choose,
    parallel,
    receive,
    sleep,
    workflow,
)
from perdure.policies import Token, XorBranch, from_log, get_log, new
from perdure.testing import Harness, Transcript, resolve
from tests.kernel.strands import (
    one_strand_fewer,
    one_strand_more,
    played,
    step,
    strand,
    strands,
)

# --- what does not fit ------------------------------------------------------------------------------


def test_p3_a_changed_workflow_diverges_from_the_log_and_shows_both_sets() -> None:
    """P3: expected, actual and step."""
    log = get_log(played(strands, new("nondeterministic", seed=2)).policy_state)
    with pytest.raises(Divergence) as caught:
        played(one_strand_more, from_log(log))
    error = caught.value
    assert error.expected == (Token("/p0#1"), Token("/p1#1"), Token("/p2#1"))
    assert error.actual == (Token("/p0#1"), Token("/p1#1"), Token("/p2#1"), Token("/p3#1"))
    assert log[error.step].enabled == error.expected
    for side in (error.expected, error.actual):
        assert " ".join(map(str, side)) in str(error)


@pytest.mark.parametrize("changed", [one_strand_more, one_strand_fewer])
def test_k11_a_changed_workflow_does_not_fit_its_transcript_and_nothing_of_the_turn_counts(changed: Any) -> None:
    """K11, P3."""
    h = played(strands, new("nondeterministic", seed=2))
    with pytest.raises(NondeterminismError):
        Harness.replay_transcript(changed, h.transcript)


def test_k12_a_command_that_differs_is_reported_before_the_schedule_that_differs_because_of_it() -> None:
    """K12, P3: the two-sided report, not a divergence that follows from it."""

    @workflow(name="strands")
    async def other_command() -> list[int]:
        await choose(lambda: strand("x"), lambda: strand("x"), lambda: strand("x"))
        await step("extra", 0)
        return await parallel(strand("a"), strand("b"), strand("c"), strand("d"))

    h = played(strands, new("nondeterministic", seed=1))
    with pytest.raises(NondeterminismError) as caught:
        Harness.replay_transcript(other_command, h.transcript)
    assert type(caught.value) is NondeterminismError
    assert caught.value.recorded is not None
    assert caught.value.now is not None


def test_k11_a_unit_that_does_not_run_any_more_is_found_although_it_emitted_nothing() -> None:
    """K11, P3: every recorded choice is made again, the last one of a turn too."""

    async def yields() -> None:
        await sleep(0)

    async def pauses() -> None:
        await receive("never", int)

    @workflow(name="idle")
    async def busy() -> int:
        await parallel(pauses(), yields(), step("a", 1))
        return 1

    @workflow(name="idle")
    async def idle() -> int:
        await parallel(pauses(), pauses(), step("a", 1))
        return 1

    h = Harness(busy, policy=new("nondeterministic", seed=1))
    last = [choice for choice in h.start().choices if choice.enabled == ("/p1",)][-1]  # after its yield
    with pytest.raises(Divergence) as caught:
        Harness.replay_transcript(idle, h.transcript)
    assert caught.value.step == last.step
    assert caught.value.expected == (Token("/p1"),)
    assert list(caught.value.actual) == []


def test_p3_a_log_that_has_ended_fails_loudly_and_the_turn_counts_for_nothing() -> None:
    """P3: `ReplayExhausted`, at the step that is missing; the run can go on with what stands."""
    full = get_log(played(strands, new("nondeterministic", seed=2)).policy_state)
    first_turn = len(Harness(strands, policy=new("nondeterministic", seed=2)).start().choices)
    h = Harness(strands, policy=from_log(full[: first_turn + 1]))
    turn = h.start()
    before = h.transcript.to_json()
    asked = [command for command in turn.commands if command.kind == "schedule_activity"]
    for _ in range(2):
        with pytest.raises(ReplayExhausted) as caught:
            h.activate(*(resolve(command, 1) for command in asked))
        assert caught.value.step == first_turn + 1
        assert h.transcript.to_json() == before
        assert len(get_log(h.policy_state)) == first_turn


def test_p3_workflow_code_that_catches_a_divergence_does_not_hide_it() -> None:
    """P3, K14: raised in the middle of workflow code, and the turn fails all the same."""

    @workflow
    async def swallows() -> str:
        try:
            return await choose(lambda: "a", lambda: "b")
        except Exception:
            return "swallowed"

    log = [(0, ["/"], "/"), (1, [0, 1, 2], 2)]
    with pytest.raises(Divergence) as caught:
        Harness(swallows, policy=from_log(log)).start()
    assert caught.value.expected == (XorBranch(0), XorBranch(1), XorBranch(2))
    assert caught.value.actual == (XorBranch(0), XorBranch(1))


DAMAGE: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "a choice is missing": lambda choices: choices.pop(1),
    "a choice stands twice": lambda choices: choices.insert(1, dict(choices[1])),
    "not in its set": lambda choices: choices[1].update(chosen=7),
    "a set that is empty": lambda choices: choices[1].update(enabled=[]),
    "steps from one": lambda choices: [choice.update(step=choice["step"] + 1) for choice in choices],
    "no unit id": lambda choices: choices[1].update(enabled=["/p01"], chosen="/p01"),
    "a name twice": lambda choices: choices[1].update(enabled=[0, 0, 1], chosen=0),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_p2_a_corrupt_log_is_refused_naming_the_entry_and_so_is_a_transcript_with_one(damage: str) -> None:
    """P2: from a log, from a transcript's text, and from a transcript."""
    h = played(strands, new("nondeterministic", seed=4))
    entry = 0 if damage == "steps from one" else 2 if damage == "a choice stands twice" else 1
    whole = json.loads(h.transcript.to_json())
    choices = whole["turns"][0]["choices"]
    DAMAGE[damage](choices)
    with pytest.raises(BadLog) as caught:
        from_log(choices)
    assert caught.value.entry == entry
    assert f"entry {entry} " in str(caught.value)
    with pytest.raises(BadLog) as caught:
        Transcript.from_json(json.dumps(whole))
    assert caught.value.entry == entry


def test_k11_a_transcript_whose_choices_were_changed_but_are_well_formed_does_not_replay() -> None:
    """K11, P4: other choices mean another order of commands."""
    h = played(strands, new("nondeterministic", seed=4))
    whole = json.loads(h.transcript.to_json())
    xor = whole["turns"][0]["choices"][1]
    xor["chosen"] = (xor["chosen"] + 1) % 3
    with pytest.raises(NondeterminismError):
        Harness.replay_transcript(strands, Transcript.from_json(json.dumps(whole)))


def test_p2_choices_of_a_wrong_type_in_a_transcript_are_refused() -> None:
    """P2: types are right."""
    whole = json.loads(played(strands, new("nondeterministic", seed=4)).transcript.to_json())
    whole["turns"][0]["choices"][1]["chosen"] = None
    with pytest.raises(InvalidValue, match=r"choices\[1\]\.chosen"):
        Transcript.from_json(json.dumps(whole))
