"""Logs (P2, P4): what is accepted, what is refused and by which entry, and that all of it comes back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import BadLog, Divergence, InvalidValue, UsageError
from perdure.model.turns import ChoiceRecord, KeptChoice
from perdure.policies import Action, Choice, LogEntry, Policy, Token, XorBranch, choose, from_log, get_log, new
from perdure.policies.choices import in_full
from perdure.policies.states import STATES

UNITS = ["/", "/p0", "/p1", "/p10", "/p0#1/p0", "/t3", "/h2", "/h2/a0"]
tokens = st.sampled_from([Token(unit) for unit in UNITS])
branches = st.integers(0, 12).map(XorBranch)
sets = st.lists(tokens, min_size=1, max_size=6) | st.lists(branches, min_size=1, max_size=6)
sets = sets | st.lists(tokens | branches, min_size=1, max_size=6)


def test_p2_a_choice_that_was_written_down_with_a_list_is_the_same() -> None:
    state: Policy = new("nondeterministic", seed=5)
    chosen, state = choose([Token("/p1"), Token("/p0")], state)
    enabled = [Token("/p0"), Token("/p1")]
    written: Any = [Choice(0, cast("tuple[Action, ...]", enabled), chosen)]
    assert get_log(state) == written == [(0, tuple(enabled), chosen)]
    assert hash(written[0]) == hash(get_log(state)[0])
    assert choose(enabled, from_log(written))[0] == chosen
    for other in (Choice(1, tuple(enabled), chosen), Choice(0, (chosen,), chosen), (0, chosen), 0):
        assert get_log(state) != [other]


@st.composite
def walks(draw: st.DrawFn) -> list[list[Action]]:
    """Enabled sets as a kernel makes them: rounds that drain, branches in between, sets that stay, and anything else.

    Which action leaves a round is what the policy with seed 5 takes.
    """
    walk: list[list[Action]] = []
    state: Policy = new("nondeterministic", seed=5)
    left: list[Action] = []
    for move in draw(st.lists(st.sampled_from(["drain", "drain", "drain", "branch", "same", "new"]), max_size=30)):
        if move == "branch":
            enabled: list[Action] = [XorBranch(index) for index in range(draw(st.integers(1, 3)))]
        elif move == "same" and walk:
            enabled = draw(st.permutations(walk[-1]))
        elif move == "drain" and left:
            enabled = draw(st.permutations(left)) if draw(st.booleans()) else sorted(left)
        else:
            enabled = list(draw(sets))
        walk.append(enabled)
        chosen, state = choose(enabled, state)
        if isinstance(chosen, Token):
            left = [action for action in set(enabled) if action != chosen]
    return walk


def play(walk: Sequence[Sequence[Action]], state: Policy) -> tuple[list[Action], list[Policy]]:
    chosen: list[Action] = []
    states = [state]
    for enabled in walk:
        action, state = choose(enabled, state)
        chosen.append(action)
        states.append(state)
    return chosen, states


def expected_log(walk: Sequence[Sequence[Action]], chosen: Sequence[Action]) -> list[Choice]:
    """The log as P2 says it, with no regard to how it is stored."""
    return [Choice(step, tuple(sorted(set(walk[step]))), action) for step, action in enumerate(chosen)]


@given(walks())
def test_p2_the_log_tells_every_set_and_every_choice(walk: list[list[Action]]) -> None:
    """P2, P4: stored compactly, given back in full, from any step on."""
    for start in (new("nondeterministic", seed=5), new("deterministic", log=True)):
        chosen, states = play(walk, start)
        full = expected_log(walk, chosen)
        assert get_log(states[-1]) == full
        for step in range(len(walk) + 2):
            assert get_log(states[-1], step) == full[step:]


@given(walks())
def test_p1_the_deterministic_choice_is_the_least_whatever_the_order(walk: list[list[Action]]) -> None:
    """P1, with a log and without."""
    least = [min(enabled) for enabled in walk]
    assert play(walk, new("deterministic"))[0] == play(walk, new("deterministic", log=True))[0] == least


@given(walks())
def test_p3_what_was_chosen_at_random_replays_the_same(walk: list[list[Action]]) -> None:
    """P3."""
    chosen, states = play(walk, new("nondeterministic", seed=5))
    log = get_log(states[-1])
    again, replayed = play([enabled[::-1] for enabled in walk], from_log(log))
    assert again == chosen
    assert get_log(replayed[-1]) == log


@given(walks(), st.data())
def test_p3_a_set_that_differs_anywhere_diverges_there(walk: list[list[Action]], data: st.DataObject) -> None:
    """P3."""
    chosen, states = play(walk, new("nondeterministic", seed=5))
    log = get_log(states[-1])
    if not walk:
        return
    step = data.draw(st.integers(0, len(walk) - 1))
    other = data.draw(sets.filter(lambda enabled: set(enabled) != set(walk[step])))
    _, replayed = play(walk[:step], from_log(log))
    with pytest.raises(Divergence) as raised:
        choose(other, replayed[-1])
    assert (raised.value.step, raised.value.expected) == (step, log[step].enabled)
    assert raised.value.actual == tuple(sorted(set(other)))
    assert play(walk[step:], replayed[-1])[0] == chosen[step:]


@given(walks(), walks())
def test_an_older_state_stays_as_it_was(walk: list[list[Action]], other: list[list[Action]]) -> None:
    """P1: so an explorer may branch from any state."""
    for start in (new("nondeterministic", seed=5), new("deterministic", log=True)):
        chosen, states = play(walk, start)
        logs = [get_log(state) for state in states]
        middle = states[len(states) // 2]
        elsewhere, branched = play(other, middle)
        assert [get_log(state) for state in states] == logs
        assert play(walk[len(states) // 2 :], middle)[0] == chosen[len(states) // 2 :]
        assert [choice.chosen for choice in get_log(branched[-1], len(states) // 2)] == elsewhere


def as_json(log: Sequence[Choice]) -> list[dict[str, Any]]:
    return json.loads(msgspec.json.encode([choice.record() for choice in log]))


@given(walks())
def test_p2_a_log_goes_through_json_and_comes_back_in_every_form(walk: list[list[Action]]) -> None:
    """P2, P4."""
    chosen, states = play(walk, new("nondeterministic", seed=5))
    log = get_log(states[-1])
    records = [choice.record() for choice in log]
    plain = as_json(log)
    assert [Choice.from_record(record) for record in records] == log
    assert msgspec.convert(plain, list[ChoiceRecord]) == records
    lists = [[entry["step"], entry["enabled"], entry["chosen"]] for entry in plain]
    backwards = [(choice.step, list(choice.enabled[::-1]), choice.chosen) for choice in log]
    forms: list[Sequence[LogEntry]] = [log, tuple(log), records, plain, lists, [tuple(e) for e in lists], backwards]
    for form in forms:
        again, replayed = play(walk, from_log(form))
        assert again == chosen
        assert get_log(replayed[-1]) == log


@given(walks(), st.integers(0, 12))
def test_p4_a_record_keeps_a_round_once_and_every_form_gives_it_back_in_full(
    walk: list[list[Action]], first_step: int
) -> None:
    """P2, P4: from any decision on, without those before it."""
    chosen, states = play(walk, new("nondeterministic", seed=5))
    state = states[-1]
    assert isinstance(state, STATES)
    kept = state.keep(first_step)
    log = get_log(state, first_step)
    assert in_full(kept) == [choice.record() for choice in log]
    assert all(one.enabled is not None for one in kept[:1])
    assert msgspec.json.decode(msgspec.json.encode(kept), type=tuple[KeptChoice, ...]) == kept
    again, replayed = play(walk[first_step:], from_log(kept, first_step=first_step))
    assert again == chosen[first_step:]
    assert get_log(replayed[-1]) == log


def test_p4_what_is_left_of_no_round_is_an_entry_that_is_wrong() -> None:
    """P2: `from_log` names it."""
    for kept in ([KeptChoice(0, None, "/")], [KeptChoice(0, ("/", "/p0"), "/"), KeptChoice(1, None, "/")]):
        with pytest.raises(BadLog) as refused:
            from_log(kept)
        assert refused.value.entry == len(kept) - 1


def test_a_choice_is_its_three_parts() -> None:
    """P2, and the format of the transcript: a token is its text, a branch its number."""
    enabled = (Token("/p0"), XorBranch(1))
    choice = Choice(3, enabled, XorBranch(1))
    step, shown, chosen = choice
    assert (step, shown, chosen) == (3, enabled, XorBranch(1))
    assert choice.record() == ChoiceRecord(step=3, enabled=("/p0", 1), chosen=1)
    with pytest.raises(InvalidValue, match="'p0' is not a unit id"):
        Choice.from_record(ChoiceRecord(0, ("p0",), "p0"))


GOOD: list[Any] = [
    {"step": 0, "enabled": ["/", "/p0"], "chosen": "/p0"},
    {"step": 1, "enabled": [0, 1], "chosen": 1},
    {"step": 2, "enabled": ["/"], "chosen": "/"},
]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"step": 7}, "its step is 7, and {n} was due"),
        ({"step": -1}, "its step is -1, and {n} was due"),
        ({"step": "0"}, "its step is '0', which is not a whole number"),
        ({"step": None}, "its step is None"),
        ({"step": True}, "its step is True, which is not a whole number"),
        ({"step": 0.0}, "its step is 0.0"),
        ({"enabled": []}, "its enabled set is empty"),
        ({"enabled": None}, "its enabled set is None, which is not a list"),
        ({"enabled": "/p0"}, "its enabled set is '/p0', which is not a list"),
        ({"enabled": {"/": 1}}, "which is not a list"),
        ({"enabled": ["/", "/p1"], "chosen": "/p0"}, "it chose /p0, which is not in its enabled set: / /p1"),
        ({"enabled": ["/p0"], "chosen": 0}, "it chose 0, which is not in its enabled set"),
        ({"enabled": ["/", "/p0", "/"], "chosen": "/"}, "its enabled set names / more than once"),
        ({"enabled": [1, 0, 1], "chosen": 1}, "names 1 more than once"),
        ({"enabled": ["/p0", "p1"], "chosen": "/p0"}, "'p1' is not a unit id"),
        ({"enabled": ["/p0", None], "chosen": "/p0"}, "None is not an action"),
        ({"enabled": [True, 0], "chosen": 0}, "True is not an action"),
        ({"enabled": [-1, 0], "chosen": 0}, "-1 is not a branch"),
        ({"enabled": [0.0, 1], "chosen": 1}, "0.0 is not an action"),
        ({"enabled": [["/p0"]], "chosen": "/p0"}, "is not an action"),
        ({"enabled": [0, 1], "chosen": True}, "True is not an action"),
        ({"enabled": ["/"], "chosen": None}, "None is not an action"),
        ({"more": 1}, "and not exactly step, enabled and chosen"),
    ],
)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_p2_a_bad_log_names_the_entry_and_what_is_wrong_with_it(change: Any, said: str, number: int) -> None:
    """P2: whichever entry it is, and in each form that the log may have."""
    damaged = {**GOOD[number], **change}
    said = said.format(n=number)
    forms: list[Any] = [damaged]
    if "more" not in change:
        forms += [(damaged["step"], damaged["enabled"], damaged["chosen"]), ChoiceRecord(**damaged), Choice(**damaged)]
    if damaged["step"] == 0.0 and number == 0:
        assert damaged["step"] == number
    for form in forms:
        with pytest.raises(BadLog) as raised:
            from_log([*GOOD[:number], form, *GOOD[number + 1 :]])
        assert raised.value.entry == number
        assert said in raised.value.reason
        assert f"entry {number}" in str(raised.value)


@pytest.mark.parametrize("entry", [None, 5, "0//p0", [], (0, ["/"]), (0, ["/"], "/", 1), {}, {"step": 0}, set[int]()])
def test_p2_an_entry_that_is_no_choice_is_named(entry: Any) -> None:
    """P2."""
    with pytest.raises(BadLog) as raised:
        from_log([GOOD[0], entry])
    assert raised.value.entry == 1
    assert isinstance(raised.value, UsageError)


@pytest.mark.parametrize("log", [None, "[]", {}, 5, iter(GOOD), GOOD[0], set[int]()])
def test_what_is_no_list_is_no_log(log: Any) -> None:
    """P2."""
    with pytest.raises(InvalidValue, match="a choice log is a list of choices"):
        from_log(log)


@given(walks().filter(lambda walk: len(walk) > 1), st.data())
def test_p2_an_entry_lost_or_doubled_or_moved_is_found_where_it_happened(
    walk: list[list[Action]], data: st.DataObject
) -> None:
    """P2: steps count up from 0, so a log cannot lose anything but its end."""
    log = get_log(play(walk, new("nondeterministic", seed=5))[1][-1])
    number = data.draw(st.integers(0, len(log) - 2))
    lost = log[:number] + log[number + 1 :]
    doubled = [*log[: number + 1], *log[number:]]
    moved = [*log[:number], log[number + 1], log[number], *log[number + 2 :]]
    for damaged, entry in ((lost, number), (doubled, number + 1), (moved, number)):
        with pytest.raises(BadLog, match="was due: steps count up by one") as raised:
            from_log(damaged)
        assert raised.value.entry == entry


@pytest.mark.parametrize("first_step", [-1, "0", True, None])
def test_a_first_step_that_is_no_step_is_refused(first_step: Any) -> None:
    """P2."""
    with pytest.raises(InvalidValue, match="first_step"):
        from_log([], first_step=first_step)
