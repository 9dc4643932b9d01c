"""What a choice costs, in time (P5) and in memory (P4)."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

import pytest

from perdure.policies import Action, Policy, Token, XorBranch, choose, from_log, get_log, new

Sets = Callable[[], list[list[Action]]]

LIMIT = 10e-6
TRIALS_MAX = 60
PIECE = 50  # choices that are timed as one: well under a millisecond
HUNDRED: list[Action] = [Token(f"/p{number}") for number in range(100)]


def same() -> list[list[Action]]:
    return [list(HUNDRED) for _ in range(2000)]


def branches() -> list[list[Action]]:
    hundred: list[Action] = [XorBranch(number) for number in range(100)]
    return [list(hundred) for _ in range(2000)]


def unsorted() -> list[list[Action]]:
    shuffled = list(HUNDRED)
    random.Random(1).shuffle(shuffled)
    return [list(shuffled) for _ in range(2000)]


def others() -> list[list[Action]]:
    """Each shares nothing with the one before. A few are enough: more would measure the machine's cache."""
    turns = [[Token(f"/p{turn}/p{number}") for number in range(100)] for turn in range(10)]
    return [list(turns[count % 10]) for count in range(800)]


def drained(between: Sequence[Action] = ()) -> list[list[Action]]:
    """Twenty rounds drained from 100 to 1 by what the policy with seed 3 takes, with `between` after each choice."""
    sets: list[list[Action]] = []
    state: Policy = new("nondeterministic", seed=3)
    for _ in range(20):
        left = list(HUNDRED)
        while left:
            sets.append(list(left))
            chosen, state = choose(left, state)
            left.remove(chosen)
            if between:
                sets.append(list(between))
                _, state = choose(between, state)
    return sets


def play(sets: Sequence[list[Action]], state: Policy) -> Policy:
    for enabled in sets:
        _, state = choose(enabled, state)
    return state


def held_after(sets: Sequence[list[Action]]) -> tuple[Policy, int]:
    """The last state, and the bytes that it alone keeps from being freed."""
    gc.collect()
    tracemalloc.start()
    try:
        state = play(sets, new("nondeterministic", seed=3))
        gc.collect()
        return state, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def seconds_a_choice(sets: Sets, start: Policy) -> Iterator[float]:
    """What a choice costs on average, from one trial on, then from two, and so on.

    A trial is timed in short pieces, and each piece counts as it was when it was done fastest: what a busy machine does
    meanwhile falls into some pieces of a trial, and hardly into the same ones each time. No piece is left out.
    """
    best: list[float] = []
    for _ in range(TRIALS_MAX):
        lists, state, taken = sets(), start, list[float]()
        for piece in range(0, len(lists), PIECE):
            enabled = lists[piece : piece + PIECE]
            began = perf_counter()
            state = play(enabled, state)
            taken.append(perf_counter() - began)
        assert len(get_log(state)) == len(lists)
        best = list(map(min, best, taken)) if best else taken
        yield sum(best) / len(lists)


@pytest.mark.parametrize("sets", [same, branches, unsorted, others, drained], ids=lambda make: make.__name__)
@pytest.mark.parametrize("kind", ["nondeterministic", "replay"])
def test_p5_a_choice_over_100_actions_costs_under_10_microseconds_with_its_log(sets: Sets, kind: str) -> None:
    """P5: each call with a list of its own, each trial with its own log."""
    start: Policy = new("nondeterministic", seed=3)
    if kind == "replay":
        start = from_log([choice.record() for choice in get_log(play(sets(), start))])
    measured: list[float] = []
    for seconds in seconds_a_choice(sets, start):
        measured.append(seconds)
        if seconds < LIMIT:
            break
    assert measured[-1] < LIMIT, f"{measured[-1] * 1e6:.1f} µs after {len(measured)} trials"


@pytest.mark.parametrize("sets", [same, drained, unsorted], ids=lambda make: make.__name__)
def test_p4_a_set_is_stored_once_and_then_what_was_taken(sets: Sets) -> None:
    """P4: 100 actions take 800 bytes, and a choice from them must not."""
    state, held = held_after(sets())
    assert len(get_log(state)) == 2000
    assert held / 2000 < 150, f"{held / 2000:.0f} bytes a choice"


def test_p4_a_branch_chosen_in_the_middle_of_a_round_does_not_store_the_round_again() -> None:
    """P4: a unit that takes a branch does so while its round is being drained."""
    two: list[Action] = [XorBranch(0), XorBranch(1)]
    state, held = held_after(drained(two))
    assert len(get_log(state)) == 4000
    assert held / 4000 < 180, f"{held / 4000:.0f} bytes a choice"


def test_a_log_of_any_length_can_be_dropped_read_and_continued() -> None:
    """P4: a chain of 300,000 links neither overflows a stack nor slows down what is read from its end."""
    enabled: list[Action] = [Token("/p0"), Token("/p1")]
    state: Policy = new("nondeterministic", seed=3)
    for _ in range(300_000):
        _, state = choose(enabled, state)
    assert [choice.step for choice in get_log(state, 299_998)] == [299_998, 299_999]
    assert len(get_log(state)) == 300_000
    del state
    gc.collect()
