"""Branches: `parallel`, `race` and `choose`, and the joins over them (K2, P6).

Each branch that is a coroutine or a callable runs in a unit and a scope of its own; a future is a branch as it
stands. A join that is satisfied cancels the rest and ends when the rest has ended (M6).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import CoroutineType
from typing import Any, TypeGuard, cast

from perdure import codec
from perdure.errors import InvalidValue
from perdure.kernel.cancellation import cancel_scope
from perdure.kernel.desk import Desk
from perdure.kernel.futures import AsyncioFuture, CancelledError, Joint, UnitTask
from perdure.kernel.scopes import Scope
from perdure.kernel.units import BRANCH, Unit
from perdure.kernel.waiting import described
from perdure.model.commands import Command
from perdure.policies import XorBranch

Branch = Any


@dataclass(frozen=True, slots=True)
class Join:
    """When a join is satisfied: `needed` branches have ended (None: all of them)."""

    needed: int | None = None
    tolerant: bool = False  # a failing branch does not fail the join

    def check(self, branches: int) -> int:
        """How many are needed of this many; refused where they do not fit."""
        if self.needed is None:
            return branches
        if not 1 <= self.needed <= branches:
            raise InvalidValue(f"a join of {self.needed} does not fit {branches} branches")
        return self.needed


class Fork:
    """Branches that run side by side, and the future that stands for their join."""

    def __init__(
        self, desk: Desk, call: str, branches: Sequence[Branch], join: Join, numbers: Sequence[int] | None = None
    ) -> None:
        self._desk = desk
        self._call = call
        self._join = join
        self.ended: dict[int, None] = {}  # in the order in which they did
        self.futures: list[AsyncioFuture[Any]] = []
        self._failure: BaseException | None = None
        self._settled = False
        self._stopped = False
        try:
            self.parent = desk.acting(call)
            for number, branch in enumerate(branches):
                if type(branch) is not CoroutineType:
                    check_branch(branch, call, number)
            self._needed = join.check(len(branches))
        except BaseException:
            discard(branches)
            raise
        self._incarnation = self.parent.branchings
        self.parent.branchings += 1
        self.joint = Joint(desk.loop, lambda: self.what, self._stop)
        self._start(numbers or range(len(branches)), branches)

    @property
    def what(self) -> str:
        """What it waits for, in words."""
        open_branches = [
            future.unit.text if self._began(future) else described(future) or f"branch {number}"
            for number, future in enumerate(self.futures)
            if not future.done()
        ]
        return f"{self._call}: {', '.join(open_branches)}"

    async def ends(self) -> list[int]:
        """Wait for the join; the numbers of the branches in the order in which they ended, up to what was needed."""
        await self.joint
        if self._failure is not None:
            raise self._failure
        return list(self.ended)[: self._needed]

    def _start(self, numbers: Iterable[int], branches: Sequence[Branch]) -> None:
        spawn = self._desk.loop.spawn
        scope = self._desk.scope()
        where = self._desk.where()
        given: list[int] = []
        for place, (number, branch) in enumerate(zip(numbers, branches, strict=True)):
            coroutine = branch
            if type(branch) is not CoroutineType:
                if is_future(branch):
                    self.futures.append(branch)
                    given.append(place)
                    continue
                coroutine = run_callable(branch)
            unit = self.parent.child(BRANCH, number, self._incarnation)
            unit.where = where
            task = spawn(coroutine, unit, Scope(scope))
            task.fork = self
            task.number = place
            self.futures.append(task)
        self._watch(given)

    def _watch(self, given: Sequence[int]) -> None:
        if not self.futures:
            self.joint.set_result(None)
        self.note_ends(self._ended_among(given))  # the others have not had a step yet
        for number in given:
            if number not in self.ended:
                self.futures[number].add_done_callback(lambda _future, number=number: self.note_ends([number]))

    def _began(self, future: AsyncioFuture[Any]) -> TypeGuard[UnitTask]:
        """Whether it is a branch that runs in a unit and a scope of its own, and not a future that was given."""
        return type(future) is UnitTask and future.fork is self

    def note_ends(self, numbers: Iterable[int]) -> None:
        """Branches have ended, in this order: that may decide the join."""
        ended = self.ended
        for number in numbers:
            if number in ended:
                continue
            ended[number] = None
            if not self._settled:
                error = None if self._join.tolerant else error_of(self.futures[number])
                if error is not None:
                    self._failure = error
                    self._settle(())
                elif len(ended) >= self._needed:
                    self._settle(ended)
            if self._settled:
                self._end_if_done()

    def _ended_among(self, numbers: Iterable[int]) -> list[int]:
        """Which of these have ended, in the order in which they did (K13)."""
        done = [number for number in numbers if self.futures[number].done()]
        return sorted(done, key=lambda number: getattr(self.futures[number], "settled_as", 0))

    def _settle(self, kept: Iterable[int]) -> None:
        """The join is decided: cancel all branches but those that it keeps."""
        self._settled = True
        kept = frozenset(kept)
        if len(kept) == len(self.futures):
            return
        for number, future in enumerate(self.futures):
            if number in kept:
                continue
            if not self._began(future):
                future.cancel()  # an answer that was served and not read goes back
            elif not future.done():
                cancel_scope(self._desk, future.base, f"the {self._call} was decided")

    def _stop(self) -> bool:
        """The join is cancelled from outside: so are the branches. False if answers that are there decide it (K17)."""
        if not self._settled:
            waited_for = [number for number, future in enumerate(self.futures) if not future.cancelled()]
            self.note_ends(self._ended_among(waited_for))
        if self._settled:
            return False
        self._stopped = True
        self._settle(())
        self._end_if_done()
        return True

    def _end_if_done(self) -> None:
        if not self._settled or len(self.ended) < len(self.futures) or self.joint.done() or self._desk.loop.closing:
            return
        if self._stopped:
            self.joint.end_cancelled()
        else:
            self.joint.set_result(None)


async def choose(desk: Desk, branches: Sequence[Branch]) -> Any:
    """Run exactly one branch, picked by the policy; the choice is recorded."""
    unit = desk.acting("choose")
    try:
        if not branches:
            raise InvalidValue("choose() needs at least one branch")
        for number, branch in enumerate(branches):
            check_branch(branch, "choose", number)
        chosen = _pick(desk, unit, len(branches))
    except BaseException:
        discard(branches)
        raise
    discard([branch for number, branch in enumerate(branches) if number != chosen])
    fork = Fork(desk, "choose", [branches[chosen]], Join(), [chosen])
    await fork.ends()
    return fork.futures[0].result()


def _pick(desk: Desk, unit: Unit, count: int) -> int:
    actions = [XorBranch(number) for number in range(count)]
    recorded = desk.matcher.ahead("record_choice", None)
    if desk.rounds.policy is not None:
        chosen = desk.rounds.choose(actions).index
    else:  # a recorded branch that is not there is not taken: the command does not match then
        chosen = next((number for number in range(count) if recorded is not None and recorded.input == [number]), 0)
    desk.emit(Command("record_choice", unit.text, encoded=codec.encode([chosen]), where=desk.where()))
    return chosen


def check_branch(branch: Branch, call: str, number: int) -> None:
    """Refuse what cannot be a branch; sets above all, whose order is not the same on replay (K16)."""
    if type(branch) is CoroutineType or is_future(branch) or (callable(branch) and not inspect.isclass(branch)):
        return
    kind = type(branch).__name__
    hint = "; a set has no order" if kind in ("set", "frozenset") else ""
    raise InvalidValue(
        f"branch {number} of {call}() is {kind}; "
        f"a branch is a coroutine, a future or a callable without arguments{hint}"
    )


def discard(branches: Sequence[Branch]) -> None:
    """Branches that will not run: close coroutines, withdraw futures."""
    for branch in branches:
        if type(branch) is CoroutineType:
            branch.close()
        elif is_future(branch):
            branch.cancel()


async def run_callable(branch: Callable[[], Any]) -> Any:
    """A callable branch is called in its own unit, and awaited if need be."""
    outcome = branch()
    return await outcome if inspect.isawaitable(outcome) else outcome


def is_future(branch: object) -> bool:
    """Whether it is a future of asyncio's protocol."""
    return getattr(branch, "_asyncio_future_blocking", None) is not None


def error_of(future: AsyncioFuture[Any]) -> BaseException | None:
    """How a future that is done failed; None if it has a value."""
    try:
        return future.exception()
    except CancelledError:
        return CancelledError()


def merge(values: Sequence[Any], settle: Callable[[Any, Any, Any], Any] | None) -> dict[Any, Any]:
    """Mappings merged in branch order; `settle(key, old, new)` decides a conflict, else the later one wins."""
    merged: dict[Any, Any] = {}
    for number, value in enumerate(values):
        if not isinstance(value, Mapping):
            raise InvalidValue(f"branch {number} returned {type(value).__name__}; merge() needs mappings")
        for key, new in cast("Mapping[Any, Any]", value).items():
            if key in merged and settle is not None:
                merged[key] = settle(key, merged[key], new)
            else:
                merged[key] = new
    return merged
