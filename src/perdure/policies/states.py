"""States: the policies as immutable values, so that a choice leaves the old state as it was and gives a new one.

In:  perdure.policies (`new`, `choose`, `get_log`, `from_log`).
Out: perdure.policies.actions for the order, perdure.policies.choices for logs.

`Recording` keeps the log, whatever the policy; a *rule* in it picks: the first, a random one, the recorded one, or
the one that somebody's own policy says.

The log is a chain of links, each `(the link before, the enabled set, position of the chosen action)`, so that states
share their past and appending costs the same at any length. A set is stored once: a set equal to the one before
is the same tuple, and a set that is the round less the token taken from it is stored as None (P4). The round is the
last set that a token was taken from; a branch chosen in the middle of a round does not disturb it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Protocol, TypeAlias, cast

from perdure.errors import Divergence, NothingEnabled, ReplayExhausted, UsageError
from perdure.model.turns import KeptChoice
from perdure.policies.actions import Action, Token, by_sort_key, canonical
from perdure.policies.choices import Choice, LogEntry, plain, read_log

Actions: TypeAlias = tuple[Action, ...]
Link: TypeAlias = "tuple[Link | None, Actions | None, int]"

_64_BITS = (1 << 64) - 1
_STRIDE = 0x9E3779B97F4A7C15


class Policy(Protocol):
    """What picks the next action; write your own by giving an object this one method.

    `choose` gets what is enabled: never empty, each action once, in canonical order (tokens in the order of units, then
    branches). It returns one of them, and the policy that makes the next choice: itself if nothing in it changes, else
    a new object, because older states must stay usable. It may use no clock, no global randomness, and no order of
    a set: the same choices must come out on every machine. Its decisions are logged and checked for it.

    A policy that lets one unit wait as long as anything else can run, three times at most::

        >>> from dataclasses import dataclass, replace
        >>> from perdure.policies import Token, choose, from_log, get_log, new
        >>> @dataclass(frozen=True)
        ... class Starve:
        ...     unit: str
        ...     times: int = 3
        ...     def choose(self, enabled):
        ...         others = [action for action in enabled if action != Token(self.unit)]
        ...         if len(others) in (0, len(enabled)) or not self.times:
        ...             return enabled[0], self
        ...         return others[0], replace(self, times=self.times - 1)
        >>> state = new(Starve("/p0", times=1))
        >>> both = [Token("/p0"), Token("/p1")]
        >>> first, state = choose(both, state)
        >>> second, state = choose(both, state)
        >>> first, second
        (Token('/p1'), Token('/p0'))
        >>> again, _ = choose(both, from_log(get_log(state)))
        >>> again
        Token('/p1')
    """

    def choose(self, enabled: Sequence[Action], /) -> tuple[Action, Policy]: ...


class Deterministic:
    """Always the first in canonical order. It keeps no log, so its state never changes."""

    __slots__ = ()

    def choose(self, enabled: Iterable[Action], /) -> tuple[Action, Deterministic]:
        """The first of `enabled`. Raises `NothingEnabled`, and `InvalidValue` for what is no action."""
        enabled = enabled if isinstance(enabled, list | tuple) else canonical(enabled)
        try:
            return min(enabled, key=by_sort_key), self
        except (AttributeError, TypeError, ValueError):
            return _settled(enabled)[0], self

    def get_log(self, first_step: int = 0) -> list[Choice]:
        """Empty: ask for a log with `new("deterministic", log=True)`."""
        return []

    def keep(self, first_step: int) -> tuple[KeptChoice, ...]:
        """Nothing: what it chose need not be kept."""
        return ()

    def __repr__(self) -> str:
        return "<deterministic policy, no log>"


class Rule(Protocol):
    """How a `Recording` picks: the position of the chosen action, and the rule for the next choice."""

    def pick(self, enabled: Actions, step: int) -> tuple[int, Rule]: ...

    def recognises(self, given: Actions, step: int) -> bool:
        """Whether this is known to be a set in canonical order, so that it need not be looked through."""
        return False


class Recording:
    """A policy and the log of what it chose: every decision, also where only one action was enabled (P2)."""

    __slots__ = ("_asked", "_last", "_log", "_round", "_rule", "_step", "_taken")

    def __init__(self, rule: Rule, first_step: int = 0) -> None:
        self._rule = rule
        self._step = first_step
        self._log: Link | None = None
        self._last: Actions = ()
        self._asked: Actions = ()
        self._round: Actions = ()
        self._taken = 0

    @classmethod
    def replay(cls, log: Sequence[LogEntry], first_step: int) -> Recording:
        """A state that replays `log`, once all of it is checked. Raises `BadLog`."""
        rule = FirstRule()
        written = cls(rule, first_step)
        for choice, position in read_log(log, first_step):
            actions, stored = written._settle(choice.enabled)
            written = written._after(rule, actions, stored, position)
        return cls(ReplayRule(written._links(first_step), first_step), first_step)

    def go_on(self) -> Recording:
        """This log, and from here on the first in canonical order: for a run that goes on where its record ends."""
        heir = Recording(FirstRule(), self._step)
        heir._log, heir._last, heir._round, heir._taken = self._log, self._last, self._round, self._taken
        return heir

    @property
    def step(self) -> int:
        """The number of the next decision."""
        return self._step

    def choose(self, enabled: Iterable[Action], /) -> tuple[Action, Recording]:
        """Choose, and log it in the state returned; whatever is raised, this state stays as it is.

        Raises `NothingEnabled`, `InvalidValue` for what is no action, and what the policy raises.
        """
        given = tuple(enabled) if isinstance(enabled, list | tuple) else canonical(enabled)
        # A kernel asks in canonical order and with the same tokens; then comparing finds them identical one by one,
        # and neither is a key read nor anything sorted.
        known = self._recognise(given) if given else None
        if known is None and given and self._rule.recognises(given, self._step):
            known = given, given
        actions, stored = known or self._settle(given)
        position, rule = self._rule.pick(actions, self._step)
        heir = self._after(rule, actions, stored, position)
        heir._asked = given
        return actions[position], heir

    def _settle(self, enabled: Iterable[Action]) -> tuple[Actions, Actions | None]:
        """The enabled set in canonical order, and what the log stores for it."""
        actions = _settled(enabled)
        return self._recognise(actions) or (actions, actions)

    def _recognise(self, actions: Actions) -> tuple[Actions, Actions | None] | None:
        """The same, if this is the last set (as it was given, or in order), or what is left of its round."""
        count = len(actions)
        if count == len(self._last) and actions in (self._asked, self._last):
            return self._last, self._last
        if count + 1 == len(self._round):
            left = _without(self._round, self._taken)
            if actions == left:
                return left, None
        return None

    def _after(self, rule: Rule, actions: Actions, stored: Actions | None, position: int) -> Recording:
        """The state that follows when the action at `position` is taken."""
        heir = Recording(rule, self._step + 1)
        heir._log = (self._log, stored, position)
        heir._last = actions
        token = isinstance(actions[position], Token)
        heir._round = actions if token else self._round
        heir._taken = position if token else self._taken
        return heir

    def get_log(self, first_step: int = 0) -> list[Choice]:
        """The decisions from `first_step` on, in full. Costs what it returns, not what stands before it."""
        links = self._links(first_step)
        step = self._step - len(links)
        log: list[Choice] = []
        left: Actions = ()
        for _, stored, position in links:
            enabled = left if stored is None else stored
            if step >= first_step:
                log.append(Choice(step, enabled, enabled[position]))
            if isinstance(enabled[position], Token):
                left = _without(enabled, position)
            step += 1
        return log

    def keep(self, first_step: int) -> tuple[KeptChoice, ...]:
        """The decisions from `first_step` on as a record keeps them (P4): a round's set once, then what is taken.

        It is read without those before it: a round that began there is told anew.
        """
        links = self._links(first_step)
        step = self._step - len(links)
        kept: list[KeptChoice] = []
        left: list[Action] = []
        is_told = False  # whether the set that `left` comes from stands in `kept`
        for _, stored, position in links:
            enabled = left if stored is None else stored
            chosen = enabled[position]
            if step >= first_step:
                told = None if stored is None and is_told else tuple([plain(action) for action in enabled])
                kept.append(KeptChoice(step, told, plain(chosen)))
            if isinstance(chosen, Token):
                is_told = step >= first_step
                left = left if stored is None else [*stored]
                del left[position]
            step += 1
        return tuple(kept)

    def _links(self, first_step: int) -> list[Link]:
        """The links from `first_step` on, oldest first, and before them those that their sets are told by."""
        links: list[Link] = []
        link, step, needs_round = self._log, self._step, False
        while link is not None and (step > first_step or needs_round):
            links.append(link)
            link, stored, position = link
            needs_round = stored is None or (needs_round and not isinstance(stored[position], Token))
            step -= 1
        links.reverse()
        return links

    def __repr__(self) -> str:
        return f"<{self._rule!r} at step {self._step}>"


State: TypeAlias = Deterministic | Recording
STATES = (Deterministic, Recording)


class FirstRule(Rule):
    """The first in canonical order."""

    __slots__ = ()

    def pick(self, enabled: Actions, step: int) -> tuple[int, FirstRule]:
        return 0, self

    def __repr__(self) -> str:
        return "deterministic policy"


class SeededRule(Rule):
    """Any of them with the same probability, by a number that follows from the seed and the step alone.

    So the choices do not depend on what else draws random numbers, and a policy that begins at step n chooses as one
    that went all the way there.
    """

    __slots__ = ("_key", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        # Hashed, so that seeds 7 and 8 have streams that share nothing, and a seed may be any whole number.
        self._key = int.from_bytes(blake2b(f"{seed:x}".encode(), digest_size=8).digest(), "big")

    def pick(self, enabled: Actions, step: int) -> tuple[int, SeededRule]:
        count = len(enabled)
        drawn = _mix(self._key + step * _STRIDE)
        scaled = drawn * count
        # Lemire's method: the top of the product is the position. The first few values of its low half would make some
        # positions likelier than others, so those are drawn anew.
        if scaled & _64_BITS < count:
            while scaled & _64_BITS < (1 << 64) % count:
                drawn = _mix(drawn + _STRIDE)
                scaled = drawn * count
        return scaled >> 64, self

    def __repr__(self) -> str:
        return f"nondeterministic policy with seed {self._seed}"


class ReplayRule(Rule):
    """What the log says, step by step, as long as what is enabled is what was enabled then (P3)."""

    __slots__ = ("_first_step", "_left", "_met", "_script")

    def __init__(
        self, script: Sequence[Link], first_step: int, left: Actions = (), met: tuple[Actions, Actions] = ((), ())
    ) -> None:
        self._script = script
        self._first_step = first_step
        self._left = left
        self._met = met  # the last two that were compared and found to be the same

    def pick(self, enabled: Actions, step: int) -> tuple[int, ReplayRule]:
        number = step - self._first_step
        if number >= len(self._script):
            raise ReplayExhausted(step)
        expected, position = self._at(number)
        if not self._meets(expected, enabled):
            raise Divergence(expected, enabled, step)
        # What is left is told by the caller's own tokens, so that the rest of the round is compared by identity.
        left = _without(enabled, position) if isinstance(enabled[position], Token) else self._left
        return position, ReplayRule(self._script, self._first_step, left, self._met)

    def recognises(self, given: Actions, step: int) -> bool:
        """Whether this is what was enabled then, which stands in the log in canonical order."""
        number = step - self._first_step
        try:
            return number < len(self._script) and self._meets(self._at(number)[0], given)
        except AttributeError:  # something in it is no action
            return False

    def _at(self, number: int) -> tuple[Actions, int]:
        """What was enabled at this entry of the log, and the position of what was taken."""
        _, stored, position = self._script[number]
        return (self._left if stored is None else stored), position

    def _meets(self, expected: Actions, actual: Actions) -> bool:
        # A set often comes again as the same two tuples, and `recognises` comes before `pick`.
        if self._met[0] is expected and self._met[1] is actual:
            return True
        if len(expected) != len(actual) or not _same(expected, actual):
            return False
        self._met = expected, actual
        return True

    def __repr__(self) -> str:
        return f"replay of {len(self._script)} choices"


class OwnRule(Rule):
    """What somebody's own policy says, once it is checked."""

    __slots__ = ("_policy",)

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def pick(self, enabled: Actions, step: int) -> tuple[int, OwnRule]:
        answer = cast(object, self._policy.choose(enabled))
        if not isinstance(answer, tuple) or len(pair := cast(tuple[object, ...], answer)) != 2:
            raise UsageError(f"{self._policy!r} answered {answer!r}: a policy returns (chosen, the policy from now on)")
        chosen, policy = pair
        if chosen not in enabled:
            raise UsageError(f"{self._policy!r} chose {chosen!r}, which is not one of: {' '.join(map(str, enabled))}")
        return enabled.index(cast(Action, chosen)), OwnRule(check_policy(policy))

    def __repr__(self) -> str:
        return f"policy {self._policy!r}"


def check_policy(policy: object) -> Policy:
    """Return `policy` if it is one; raise `UsageError` if not."""
    if isinstance(policy, type) or not callable(getattr(policy, "choose", None)):
        raise UsageError(f"{policy!r} is not a policy: it takes an object with the method choose(enabled)")
    return cast(Policy, policy)


def _settled(enabled: Iterable[Action]) -> Actions:
    actions = canonical(enabled)
    if not actions:
        raise NothingEnabled("no action is enabled, so there is nothing to choose from; the policy is as it was")
    return actions


def _same(expected: Actions, actual: Actions) -> bool:
    # Most often the very same tokens; else comparing keys is three times as quick as comparing tokens.
    if expected[0] is actual[0] and expected == actual:
        return True
    return [action.sort_key for action in expected] == [action.sort_key for action in actual]


def _without(actions: Actions, position: int) -> Actions:
    return actions[:position] + actions[position + 1 :]


def _mix(number: int) -> int:
    """Scatter the bits of a counter over 64 bits (the finaliser of SplitMix64)."""
    number &= _64_BITS
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & _64_BITS
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB & _64_BITS
    return number ^ (number >> 31)
