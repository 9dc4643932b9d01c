"""Scopes: regions that are cancelled together, and shields against it (M6).

A scope that was cancelled stays so: kernel.loop asks `interrupted` at every pause of a task.
The order of interruptions is kernel.cancellation's; the `async with` forms live there too.
"""

from __future__ import annotations

import msgspec


class Scope(msgspec.Struct, eq=False, gc=False):
    """One region of a run. The root scope has no parent. There is no way back from it, so that gc need not look."""

    parent: Scope | None
    shield: bool = False
    cancelled: bool = False
    reason: str = ""

    def interrupted(self) -> bool:
        """Whether a pause in here is to raise: this scope or one around it is cancelled, with no shield between."""
        scope: Scope | None = self
        while scope is not None:
            if scope.cancelled:
                return True
            if scope.shield:
                return False
            scope = scope.parent
        return False

    def shielded_from(self, outer: Scope) -> bool:
        """Whether a shield stands between this scope and `outer`."""
        scope: Scope | None = self
        while scope is not None and scope is not outer:
            if scope.shield:
                return True
            scope = scope.parent
        return False

    def is_reached_by(self, cancelled: Scope) -> bool:
        """Whether the cancellation of `cancelled` counts in here: this scope lies in it, and no shield between."""
        return self.within(cancelled) and not self.shielded_from(cancelled)

    def within(self, outer: Scope) -> bool:
        """Whether this scope is `outer` or lies inside it."""
        scope: Scope | None = self
        while scope is not None:
            if scope is outer:
                return True
            scope = scope.parent
        return False
