"""Choices at random (P1): from an own stream, without favour, and the same for ever."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from perdure.policies import Action, Policy, Token, choose, get_log, new, states

P0, P1, P2 = (Token(f"/p{number}") for number in range(3))
MANY: list[Action] = [Token(f"/p{number}") for number in range(10)]


def play(sets: Sequence[Sequence[Action]], state: Policy) -> tuple[list[Action], Policy]:
    chosen: list[Action] = []
    for enabled in sets:
        action, state = choose(enabled, state)
        chosen.append(action)
    return chosen, state


def test_p1_the_nondeterministic_policy_makes_different_choices() -> None:
    """P1."""
    chosen, _ = play([MANY] * 200, new("nondeterministic", seed=7))
    assert set(chosen) == set(MANY)


def test_p1_the_same_seed_makes_the_same_choices_and_another_seed_others() -> None:
    """P1."""
    first, again, other = (play([MANY] * 50, new("nondeterministic", seed=seed))[0] for seed in (7, 7, 8))
    assert first == again != other
    assert play([MANY] * 50, new("nondeterministic"))[0] == play([MANY] * 50, new("nondeterministic", seed=0))[0]


def test_p1_the_choices_of_a_seed_are_the_same_for_ever() -> None:
    """P1: on every Python and machine; a change here breaks every recorded seed."""
    chosen, _ = play([MANY] * 16, new("nondeterministic", seed=7))
    assert "".join(str(action)[2:] for action in chosen) == "5579678625856018"
    chosen, _ = play([MANY] * 16, new("nondeterministic", seed=-(10**30)))
    assert "".join(str(action)[2:] for action in chosen) == "0420902053067373"


def test_p1_neither_the_global_random_numbers_nor_the_order_given_have_a_say() -> None:
    """P1: an own stream, and a set is a set."""
    random.seed(1)
    before = random.getstate()
    first, _ = play([MANY] * 50, new("nondeterministic", seed=7))
    assert random.getstate() == before
    random.seed(2)
    assert play([MANY[::-1]] * 50, new("nondeterministic", seed=7))[0] == first


def test_p1_a_policy_that_begins_at_a_later_step_chooses_as_one_that_went_there() -> None:
    """P1: so a run that was rebuilt from its record goes on as if it had never stopped."""
    whole, _ = play([MANY] * 50, new("nondeterministic", seed=7))
    rest, state = play([MANY] * 20, new("nondeterministic", seed=7, first_step=30))
    assert rest == whole[30:]
    assert [choice.step for choice in get_log(state)] == list(range(30, 50))


def test_p1_a_draw_that_would_favour_an_action_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: 64 bits do not divide into three equal parts; the one value too many, 0, is not used."""
    draws = iter([0, 0, 2**63, 1])

    def draw(number: int) -> int:
        return next(draws)

    monkeypatch.setattr(states, "_mix", draw)
    chosen, _ = play([[P0, P1, P2]] * 2, new("nondeterministic", seed=7))
    assert chosen == [P1, P0]


@pytest.mark.parametrize("count", [2, 3, 7, 10, 100])
def test_p1_the_nondeterministic_policy_favours_no_action(count: int) -> None:
    """P1: chi-square over a fixed seed, four standard deviations wide on either side (too even is no better)."""
    enabled = [Token(f"/p{number}") for number in range(count)]
    rounds = 200 * count
    chosen, _ = play([enabled] * rounds, new("nondeterministic", seed=3))
    counted = Counter(chosen)
    chi_square = sum((counted[action] - 200) ** 2 / 200 for action in enabled)
    freedom = count - 1
    assert max(0.0, freedom - 4 * (2 * freedom) ** 0.5) <= chi_square <= freedom + 4 * (2 * freedom) ** 0.5
    pairs = Counter(zip(chosen[::2], chosen[1::2], strict=True))
    expected = rounds / 2 / count**2
    chi_square = sum((pairs[one, two] - expected) ** 2 / expected for one in enabled for two in enabled)
    freedom = count**2 - 1
    assert abs(chi_square - freedom) <= 4 * (2 * freedom) ** 0.5, "what follows depends on what went before"


def test_k1_no_hash_seed_changes_a_choice() -> None:
    """K1, P1: processes with other hash seeds choose the same from the same sets, even given as sets."""
    program = (
        "from perdure.policies import *\n"
        "state = new('nondeterministic', seed=7)\n"
        "enabled = {Token(f'/p{i}') for i in range(30)} | {XorBranch(i) for i in range(9)}\n"
        "for _ in range(100):\n"
        "    chosen, state = choose(enabled, state)\n"
        "print(*(choice.chosen for choice in get_log(state)))\n"
        "print(*get_log(state)[0].enabled)\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(said) == 1
    assert len(said.pop().split()) == 100 + 39
