"""Rounds: who runs next (K4, P1 to P4).

A round is the set of units that were ready when it began; each gets one step, in the order that the policy picks
(K3 order, if there is none). Messages of the round come behind all units. Between rounds, conditions are looked at.
kernel.loop runs the steps; kernel.executor says when to drain.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from perdure import policies
from perdure.errors import Divergence, PerdureError, UsageError
from perdure.kernel.loop import WorkflowLoop
from perdure.kernel.units import Unit
from perdure.model.turns import KeptChoice
from perdure.policies.choices import in_full

_key = attrgetter("key")  # not a function of Python: it is called for every unit of every round


class Rounds:
    """Drains what is ready, round by round, in the order that the policy picks."""

    __slots__ = ("_first_step", "_loop", "look", "messages", "policy")

    def __init__(self, loop: WorkflowLoop) -> None:
        self.policy: Any = None
        self.messages: list[Callable[[], bool]] = []
        self.look: Callable[[], None] = _nothing
        self._first_step = 0
        self._loop = loop

    def drain(self) -> None:
        """Run rounds until nothing is ready and no message waits."""
        loop = self._loop
        while loop.ready or self.messages:
            units = loop.ready
            messages = self.messages
            loop.ready = []
            self.messages = []
            if self.policy is not None:
                self._run_as_chosen(units)
            else:
                if len(units) > 1:
                    units.sort(key=_key)
                for unit in units:
                    loop.step(unit)
                    if loop.violation is not None:
                        raise loop.violation
            moved = bool(units)
            for dispatch in messages:
                moved = dispatch() or moved
                if loop.violation is not None:
                    raise loop.violation
            if moved:
                self.look()

    def choose(self, actions: list[Any]) -> Any:
        """Let the policy pick one action; what it logs belongs to the turn's record."""
        try:
            chosen, self.policy = policies.choose(actions, self.policy)
        except PerdureError as error:
            self._loop.violate(error)
            raise
        except Exception as error:  # of somebody's own policy: never a failure of the workflow
            failed = UsageError(f"the policy failed while it chose: {error!r}")
            self._loop.violate(failed)
            raise failed from error
        return chosen

    def begin_turn(self) -> None:
        """From now on, choices belong to a new turn."""
        self.messages = []
        self._first_step = getattr(self.policy, "step", 0)

    def choices(self, recorded: tuple[KeptChoice, ...] = ()) -> tuple[KeptChoice, ...]:
        """What the policy chose in this turn. `Divergence` if there is less to choose than was recorded (P3)."""
        if self.policy is None:
            return ()
        made = self.policy.keep(self._first_step) if isinstance(self.policy, policies.STATES) else ()
        if len(made) < len(recorded):
            left = policies.Choice.from_record(in_full(recorded)[len(made)])
            raise Divergence(left.enabled, (), left.step)
        return made

    def _run_as_chosen(self, units: list[Unit]) -> None:
        by_token = {unit.token: unit for unit in sorted(units, key=_key)}
        while by_token:
            unit = by_token.pop(self.choose(list(by_token)))
            self._loop.step(unit)
            if self._loop.violation is not None:
                raise self._loop.violation


def _nothing() -> None:
    return None
