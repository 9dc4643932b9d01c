"""Policies (P1 to P5): what picks the next unit, or the branch of a `choose`, where several could be next.

In:  the kernel at each grant, tests and explorers; logs come back from turn records.
Out: actions (what is chosen from), choices (logs), states (who chooses).

A policy is an immutable state: `choose(enabled, state)` returns the chosen action and the next state, and the old state
can be used again, so that an explorer may branch from it::

    >>> state = new("nondeterministic", seed=7)
    >>> enabled = [Token("/p0"), Token("/p1"), XorBranch(0)]
    >>> chosen, state = choose(enabled, state)
    >>> replayed, _ = choose(enabled, from_log(get_log(state)))
    >>> replayed == chosen
    True
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, cast, overload

from perdure.errors import BadLog, Divergence, InvalidValue, NothingEnabled, ReplayExhausted, UsageError
from perdure.policies.actions import Action, Token, XorBranch
from perdure.policies.choices import Choice, LogEntry
from perdure.policies.states import (
    STATES,
    Deterministic,
    FirstRule,
    OwnRule,
    Policy,
    Recording,
    SeededRule,
    State,
    check_policy,
)

__all__ = [
    "Action",
    "BadLog",
    "Choice",
    "Divergence",
    "LogEntry",
    "NothingEnabled",
    "Policy",
    "ReplayExhausted",
    "State",
    "Token",
    "XorBranch",
    "choose",
    "from_log",
    "get_log",
    "new",
]

# For each policy its options, the one it cannot do without first, with their defaults and their types.
_OPTIONS: dict[str, dict[str, tuple[object, type]]] = {
    "deterministic": {"log": (False, bool), "first_step": (0, int)},
    "nondeterministic": {"seed": (0, int), "first_step": (0, int)},
    "replay": {"log": (None, object), "first_step": (0, int)},
    "your own": {"first_step": (0, int)},
}


@overload
def new(policy: Literal["deterministic"], *, log: bool = False, first_step: int = 0) -> State: ...
@overload
def new(policy: Literal["nondeterministic"], *, seed: int = 0, first_step: int = 0) -> Recording: ...
@overload
def new(policy: Literal["replay"], *, log: Sequence[LogEntry], first_step: int = 0) -> Recording: ...
@overload
def new(policy: Policy, *, first_step: int = 0) -> Recording: ...
def new(policy: str | Policy, **options: object) -> State:
    """The state in which a policy begins.

    `"deterministic"` takes the first in canonical order, and keeps a log only with `log=True`. `"nondeterministic"`
    takes any, by `seed` (a whole number; 0 if not given, so that it can always be repeated). `"replay"` takes what
    `log` says. An object with a method `choose` is a policy of your own (see `Policy`). `first_step` numbers the first
    decision, for a log that goes on where an earlier one ended.

    Raises `UsageError` for an unknown policy or option, `InvalidValue` for a value of the wrong type, `BadLog`.
    """
    if not isinstance(policy, str):
        own = check_policy(policy)
        return Recording(OwnRule(own), cast(int, _read_options("your own", options)["first_step"]))
    if policy not in _OPTIONS or policy == "your own":
        raise UsageError(f"there is no policy {policy!r}: use deterministic, nondeterministic, replay, or an object")
    values = _read_options(policy, options)
    first_step = cast(int, values["first_step"])
    if policy == "replay":
        if "log" not in options:
            raise UsageError('the policy replay needs what it is to replay: new("replay", log=…)')
        return from_log(cast(Sequence[LogEntry], values["log"]), first_step=first_step)
    if policy == "nondeterministic":
        return Recording(SeededRule(cast(int, values["seed"])), first_step)
    return Recording(FirstRule(), first_step) if values["log"] else Deterministic()


def choose(enabled: Iterable[Action], state: Policy) -> tuple[Action, State]:
    """Choose one of the enabled actions: the chosen one and the next state; `state` itself stays as it was.

    The order of `enabled` does not matter, and an action that stands in it twice counts once. A policy of your own is
    recorded from here on, as if by `new(policy)`.

    Raises `NothingEnabled`, `InvalidValue` for what is no action, on replay `Divergence` and `ReplayExhausted`. Nothing
    has changed then.
    """
    if isinstance(state, STATES):
        return state.choose(enabled)
    return Recording(OwnRule(check_policy(state))).choose(enabled)


def get_log(state: Policy, first_step: int = 0) -> list[Choice]:
    """Every decision that led to this state, oldest first (P2); with `first_step`, those from that one on.

    A replay gives what it has replayed so far. A deterministic policy that was not asked for a log gives none.
    """
    if isinstance(state, STATES):
        return state.get_log(first_step)
    check_policy(state)
    return []


def from_log(log: Sequence[LogEntry], *, first_step: int = 0) -> Recording:
    """A state that replays `log`: `Choice`s, `ChoiceRecord`s, or what JSON makes of them.

    From JSON an entry is `{"step": 0, "enabled": ["/", "/p0"], "chosen": "/p0"}` or the three in a list; a branch is
    its number. All of it is checked before anything is replayed: `BadLog` names the first entry that is wrong.
    """
    _check_option("replay", "first_step", first_step, int)
    return Recording.replay(log, first_step)


def _read_options(policy: str, options: dict[str, object]) -> dict[str, object]:
    known = _OPTIONS[policy]
    for name, value in options.items():
        if name not in known:
            raise UsageError(f"a policy that is {policy} has no option {name!r}: it has {', '.join(known)}")
        _check_option(policy, name, value, known[name][1])
    return {name: options.get(name, default) for name, (default, _) in known.items()}


def _check_option(policy: str, name: str, value: object, expected: type) -> None:
    # A bool is an int to Python, and a mistake here.
    if expected is not object and type(value) is not expected:
        wanted = {bool: "True or False", int: "a whole number"}[expected]
        raise InvalidValue(f"{name} of the policy {policy} is {wanted}, not {value!r}")
    if name == "first_step" and cast(int, value) < 0:
        raise InvalidValue(f"{name} of the policy {policy} counts from 0, so it is not {value}")
