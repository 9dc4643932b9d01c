"""Conditions: `wait_until`, looked at when it is called and after each round, in unit order (K17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.kernel.desk import Desk
from perdure.kernel.futures import LoopFuture
from perdure.kernel.scopes import Scope
from perdure.kernel.units import Unit


class Condition(LoopFuture):
    """A future that is done once a predicate is true."""

    __slots__ = ("_desk", "_predicate", "deadline", "scope", "seq", "since_turn", "unit", "where")

    def __init__(self, desk: Desk, unit: Unit, predicate: Callable[[], object]) -> None:
        super().__init__(loop=desk.loop)
        self._desk = desk
        self._predicate = predicate
        self.seq = -1
        self.unit = unit
        self.scope: Scope = desk.scope()
        self.since_turn = desk.loop.turn
        self.where: tuple[str, int] | None = None
        self.deadline: Any = None

    @property
    def what(self) -> str:
        """What it waits for, in words."""
        return "a condition"

    def holds(self) -> bool:
        """Ask the predicate; it may look and not act."""
        return bool(self._desk.read_only("a predicate", self._predicate))

    def wait(self) -> None:
        """Look at it after every round from now on."""
        self._desk.conditions.append(self)
        self._desk.open(self)

    def look(self) -> None:
        """Done if the predicate is true; failed if it raises."""
        if self.done():
            return
        try:
            holds = self.holds()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._leave()
            self.set_exception(error)
        else:
            if holds:
                self._leave()
                self.set_result(None)

    def expire(self) -> None:
        """Its time has run out."""
        self._leave()
        self.set_exception(TimeoutError("the condition did not come true in time"))

    def cancel(self, msg: Any | None = None) -> bool:
        """Stop waiting."""
        if self.done():
            return False
        self._leave()
        return super().cancel(msg)

    def _leave(self) -> None:
        self._desk.conditions.remove(self)
        self._desk.close_operation(self)
        if self.deadline is not None:
            self.deadline.cancel()
