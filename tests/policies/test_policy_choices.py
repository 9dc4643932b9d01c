"""The three policies and one's own (P1, P2, P3): the test list of the scheduler design, and the edges of each rule."""

from __future__ import annotations

import doctest
from collections.abc import Sequence
from typing import Any, cast

import pytest

import perdure.policies
import perdure.policies.states
from perdure.errors import Divergence, InvalidValue, NondeterminismError, NothingEnabled, ReplayExhausted, UsageError
from perdure.policies import Action, Choice, Policy, Token, XorBranch, choose, from_log, get_log, new

P0, P1, P2, P9, P10 = (Token(f"/p{number}") for number in (0, 1, 2, 9, 10))
MANY: list[Action] = [Token(f"/p{number}") for number in range(10)]


def play(sets: Sequence[Sequence[Action]], state: Policy) -> tuple[list[Action], Policy]:
    chosen: list[Action] = []
    for enabled in sets:
        action, state = choose(enabled, state)
        chosen.append(action)
    return chosen, state


LOGGED = {
    "deterministic": lambda: new("deterministic", log=True),
    "nondeterministic": lambda: new("nondeterministic", seed=7),
    "replay": lambda: from_log([(step, ["/p0", "/p1"], "/p1") for step in range(3)]),
    "your own": lambda: new(Last()),
}


class Last:
    """Takes what stands last, and remembers what it was shown."""

    shown: Sequence[Action] = ()

    def choose(self, enabled: Sequence[Action], /) -> tuple[Action, Policy]:
        heir = Last()
        heir.shown = enabled
        return enabled[-1], heir


def test_p1_the_deterministic_policy_makes_the_same_choice_for_the_same_set() -> None:
    """P1."""
    enabled = [P1, XorBranch(2), P2]
    state = new("deterministic")
    assert {choose(enabled, state)[0] for _ in range(10)} == {P1}


@pytest.mark.parametrize(
    ("enabled", "first"),
    [
        ([P2, P1, XorBranch(0)], P1),
        ([XorBranch(0), Token("/a9")], Token("/a9")),
        ([XorBranch(10), XorBranch(9)], XorBranch(9)),
        ([P10, P9], P9),
        ([Token("/h0"), Token("/t0"), Token("/a0")], Token("/t0")),
        ([Token("/p0/p0"), P0, Token("/p0#1")], P0),
        ([Token("/p0"), Token("/")], Token("/")),
        ([P1], P1),
    ],
)
@pytest.mark.parametrize("log", [False, True])
def test_p1_the_deterministic_policy_takes_tokens_first_and_the_lowest_of_them(
    enabled: list[Action], first: Action, log: bool
) -> None:
    """P1, K3."""
    state = new("deterministic", log=log)
    assert choose(enabled, state)[0] == choose(enabled[::-1], state)[0] == choose(iter(enabled), state)[0] == first


def test_p1_duplicates_count_once() -> None:
    """P1: an enabled set is a set, for the choice and for the log."""
    single, _ = play([[P0, P1]] * 50, new("nondeterministic", seed=7))
    double, state = play([[P1, P0, P1, P1]] * 50, new("nondeterministic", seed=7))
    assert single == double
    assert get_log(state)[0].enabled == (P0, P1)


@pytest.mark.parametrize("make", LOGGED.values(), ids=LOGGED)
def test_p2_every_decision_is_logged_in_canonical_order_singletons_included(make: Any) -> None:
    """P2, for every policy that keeps a log."""
    if make is LOGGED["replay"]:
        state: Policy = from_log([(0, ["/p1"], "/p1"), (1, ["/p2", 1], 1), (2, [0], 0)])
    else:
        state = make()
    sets: list[list[Action]] = [[P1], [XorBranch(1), P2], [XorBranch(0)]]
    chosen, state = play(sets, state)
    sorted_sets = [(P1,), (P2, XorBranch(1)), (XorBranch(0),)]
    assert get_log(state) == [Choice(step, sorted_sets[step], chosen[step]) for step in range(3)]
    assert [choice.step for choice in get_log(state, 1)] == [1, 2]


def test_p2_the_deterministic_policy_keeps_a_log_only_on_request() -> None:
    """P2."""
    chosen, state = play([[P0, P1]] * 3, new("deterministic"))
    logged, logging = play([[P0, P1]] * 3, new("deterministic", log=True))
    assert chosen == logged
    assert (get_log(state), len(get_log(logging))) == ([], 3)


def test_p2_a_log_that_was_asked_for_is_the_callers_to_change() -> None:
    """P2: the state keeps its own."""
    _, state = play([[P0, P1]], new("nondeterministic", seed=7))
    get_log(state).clear()
    assert len(get_log(state)) == 1


@pytest.mark.parametrize("make", LOGGED.values(), ids=LOGGED)
def test_p1_an_empty_set_is_an_error_and_changes_nothing(make: Any) -> None:
    """P1."""
    state = make()
    expected = play([[P0, P1]] * 2, state)[0]
    for _ in range(2):
        with pytest.raises(NothingEnabled, match="nothing to choose from"):
            choose([], state)
    assert get_log(state) == []
    chosen, after = play([[P0, P1]], state)
    with pytest.raises(NothingEnabled):
        choose(iter(()), after)
    assert chosen + play([[P0, P1]], after)[0] == expected
    assert len(get_log(after)) == 1


def test_p1_the_deterministic_policy_without_a_log_refuses_an_empty_set_too() -> None:
    """P1."""
    with pytest.raises(NothingEnabled):
        choose([], new("deterministic"))


@pytest.mark.parametrize("enabled", ["/p0", ["/p0"], [0], [P0, "/p1"], [P0, None], 5, None, {"/p0": 1}])
@pytest.mark.parametrize("make", [lambda: new("deterministic"), *LOGGED.values()], ids=["no log", *LOGGED])
def test_what_is_no_action_is_refused_by_name(make: Any, enabled: Any) -> None:
    """P1."""
    state = make()
    with pytest.raises(InvalidValue, match=r"is not an action|is a list of actions"):
        choose(enabled, state)
    assert get_log(state) == []


def test_p3_replay_makes_the_recorded_choices_and_logs_them_again() -> None:
    """P3: the whole round trip, with sets that grow, shrink, and mix tokens and branches."""
    sets: list[list[Action]] = [[P0, P1, P2], [P1, P2], [XorBranch(0), XorBranch(1)], [P9, P10], [P10, XorBranch(4)]]
    chosen, state = play(sets, new("nondeterministic", seed=11))
    log = get_log(state)
    for replaying in (from_log(log), new("replay", log=log)):
        again, replayed = play([enabled[::-1] for enabled in sets], replaying)
        assert again == chosen
        assert get_log(replayed) == log
        assert [len(get_log(play(sets[:count], replaying)[1])) for count in range(5)] == list(range(5))


@pytest.mark.parametrize(
    "enabled", [[P0], [P0, P1, P2], [P0, P2], [P2], [XorBranch(0), P0, P1], [XorBranch(0), XorBranch(1)]]
)
def test_p3_another_enabled_set_is_a_divergence_that_shows_both(enabled: list[Action]) -> None:
    """P3."""
    _, state = choose([P1], from_log([(0, ["/p1"], "/p1"), (1, ["/p0", "/p1"], "/p0")]))
    for _ in range(2):
        with pytest.raises(Divergence, match="at step 1") as raised:
            choose(enabled[::-1], state)
        assert isinstance(raised.value, NondeterminismError)
        assert list(raised.value.expected) == [P0, P1]
        assert list(raised.value.actual) == sorted(enabled)
        assert raised.value.step == 1
    assert choose([P1, P0], state)[0] == P0, "and the state is as it was"


def test_p3_a_divergence_within_a_round_shows_what_was_left_of_it() -> None:
    """P3, P4: what is stored as "the rest" is shown in full."""
    log = [(0, ["/p0", "/p1", "/p2"], "/p1"), (1, [0, 1], 1), (2, ["/p0", "/p2"], "/p0"), (3, ["/p2"], "/p2")]
    _, state = play([[P0, P1, P2], [XorBranch(0), XorBranch(1)]], from_log(log))
    with pytest.raises(Divergence) as raised:
        choose([P0, P1], state)
    assert list(raised.value.expected) == [P0, P2]
    assert play([[P0, P2], [P2]], state)[0] == [P0, P2]


def test_p3_a_log_that_has_ended_is_exhausted() -> None:
    """P3."""
    with pytest.raises(ReplayExhausted, match="before step 0"):
        choose([P0], from_log([]))
    _, state = choose([P0], from_log([(0, ["/p0"], "/p0")]))
    for _ in range(2):
        with pytest.raises(ReplayExhausted) as raised:
            choose([P0], state)
        assert isinstance(raised.value, NondeterminismError)
        assert raised.value.step == 1


def test_p3_replay_is_idempotent() -> None:
    """P3: one log can be replayed any number of times, from any state on the way."""
    _, state = play([MANY] * 9, new("nondeterministic", seed=5))
    start = from_log(get_log(state))
    runs = [play([MANY] * 9, start)[0] for _ in range(3)]
    assert runs[0] == runs[1] == runs[2] == [choice.chosen for choice in get_log(state)]


def test_a_log_that_goes_on_is_replayed_from_its_first_step() -> None:
    """P2: steps count up from where the earlier log ended."""
    chosen, state = play([MANY] * 9, new("nondeterministic", seed=5))
    log = get_log(state, 4)
    assert [choice.step for choice in log] == [4, 5, 6, 7, 8]
    for replaying in (from_log(log, first_step=4), new("replay", log=log, first_step=4)):
        again, state = play([MANY] * 5, replaying)
        assert again == chosen[4:]
        assert get_log(state) == log
        with pytest.raises(ReplayExhausted, match="before step 9"):
            choose(MANY, state)
        with pytest.raises(Divergence, match="at step 4"):
            choose([P0], replaying)


def test_p1_ones_own_policy_sees_canonical_sets_and_is_recorded_and_replayed() -> None:
    """P1, P2: `choose` dispatches to any object with the method."""
    for start in (new(Last()), Last()):
        assert get_log(start) == []
        chosen, state = play([[P1, P0, P1], [XorBranch(0), P2]], start)
        assert chosen == [P1, XorBranch(0)]
        assert get_log(state) == [Choice(0, (P0, P1), P1), Choice(1, (P2, XorBranch(0)), XorBranch(0))]
        assert play([[P0, P1], [P2, XorBranch(0)]], from_log(get_log(state)))[0] == chosen
    assert get_log(play([[P0]], new(Last(), first_step=3))[1]) == [Choice(3, (P0,), P0)]


class Wrong:
    """Answers what it was made with."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def choose(self, enabled: Sequence[Action], /) -> tuple[Action, Policy]:
        return cast(Any, self.answer)


@pytest.mark.parametrize(
    "answer", [None, P0, (P2, Last()), ("/p0", Last()), (P0, None), (P0, Last), (P0,), [P0, Last()]]
)
def test_p1_an_answer_that_cannot_be_is_refused_and_nothing_is_logged(answer: object) -> None:
    """P1: a policy chooses from the enabled set, and returns the policy from now on."""
    state = new(Wrong(answer))
    with pytest.raises(UsageError, match="policy"):
        choose([P0, P1], state)
    assert get_log(state) == []


def test_an_error_that_ones_own_policy_raises_passes_through() -> None:
    """P1."""

    class Broken:
        def choose(self, enabled: Sequence[Action], /) -> tuple[Action, Policy]:
            raise AttributeError("its own mistake")

    with pytest.raises(AttributeError, match="its own mistake"):
        choose([P0], Broken())


@pytest.mark.parametrize(
    ("policy", "options", "said"),
    [
        ("random", {}, "there is no policy 'random'"),
        ("", {}, "there is no policy ''"),
        ("your own", {}, "there is no policy 'your own'"),
        (None, {}, "None is not a policy"),
        (Last, {}, "is not a policy: it takes an object"),
        (["deterministic"], {}, "is not a policy"),
        ("deterministic", {"seed": 1}, "has no option 'seed': it has log, first_step"),
        ("deterministic", {"log": 1}, "log of the policy deterministic is True or False, not 1"),
        ("nondeterministic", {"log": True}, "has no option 'log'"),
        ("nondeterministic", {"seed": "7"}, "seed of the policy nondeterministic is a whole number, not '7'"),
        ("nondeterministic", {"seed": True}, "is a whole number, not True"),
        ("nondeterministic", {"seed": 1.5}, "is a whole number"),
        ("nondeterministic", {"seed": None}, "is a whole number, not None"),
        ("nondeterministic", {"first_step": -1}, "counts from 0"),
        ("replay", {}, "needs what it is to replay"),
        ("replay", {"log": [], "seed": 1}, "has no option 'seed'"),
        ("replay", {"log": [], "first_step": "0"}, "first_step of the policy replay is a whole number"),
        ("replay", {"log": None}, "a choice log is a list"),
        (Last(), {"seed": 1}, "has no option 'seed'"),
    ],
)
def test_wrong_policies_and_options_are_refused_with_what_there_is(policy: Any, options: Any, said: str) -> None:
    """P1."""
    with pytest.raises(UsageError, match="^.*" + said.replace("(", r"\(")):
        new(policy, **options)


@pytest.mark.parametrize("state", [None, "deterministic", Last, 5])
def test_what_is_no_policy_is_refused(state: Any) -> None:
    """P1."""
    with pytest.raises(UsageError, match="is not a policy"):
        choose([P0], state)
    with pytest.raises(UsageError, match="is not a policy"):
        get_log(state)


@pytest.mark.parametrize("module", [perdure.policies, perdure.policies.states], ids=lambda module: module.__name__)
def test_the_examples_in_the_docstrings_work(module: Any) -> None:
    """P1: the worked example of a policy of one's own among them."""
    assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=doctest.testmod(module).attempted)
    assert doctest.testmod(module).attempted >= 5
