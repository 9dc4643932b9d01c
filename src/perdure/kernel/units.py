"""Units: the strands of a run, named by structure and never by timing (K2, K3, K9).

Made by kernel.loop (tasks), kernel.branches (branches) and kernel.messages (handlers); ordered by kernel.rounds.
"""

from __future__ import annotations

import hashlib
import uuid
from contextvars import ContextVar
from random import Random
from typing import Any

from perdure.policies import Token

# A segment sorts by kind first, in this order, then by number, then by incarnation (K3).
BRANCH, TASK, HANDLER, REST = range(4)
MARKS = ("/p", "/t", "/h", "/a")

Segment = tuple[int, int, int]
Key = tuple[Segment, ...]

# The unit that a callback belongs to travels in the callback's context.
UNIT: ContextVar[Unit] = ContextVar("perdure_unit")


class Unit:
    """One strand of workflow code, with what is ready to run in it."""

    __slots__ = (
        "_random",
        "_token",
        "_uuids_drawn",
        "branchings",
        "key",
        "phases",
        "queue",
        "tasks",
        "tasks_made",
        "text",
        "where",
    )

    def __init__(self, key: Key, text: str) -> None:
        self.key = key
        self.text = text
        self.queue: list[Any] | None = None  # a list while the unit is ready, or has the step
        self.tasks: list[Any] = []  # of kernel.futures.UnitTask, those that have not ended
        self.tasks_made = 0
        self.branchings = 0
        self.phases = 0
        self.where: tuple[str, int] | None = None  # the line that made it, for code that has no line of its own
        self._token: Token | None = None
        self._random: Random | None = None
        self._uuids_drawn = 0

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Unit({self.text})"

    def child(self, kind: int, number: int, incarnation: int = 0) -> Unit:
        """The unit one segment below this one."""
        segment = (kind, number, incarnation)
        text = MARKS[kind] + str(number)
        if incarnation:
            text += f"#{incarnation}"
        return Unit((*self.key, segment), self.text + text) if self.key else Unit((segment,), text)

    @property
    def token(self) -> Token:
        """The action "run this unit", as policies see it."""
        if self._token is None:
            self._token = Token(self.text)
        return self._token

    def random(self, seed: int) -> Random:
        """This unit's own stream of random numbers (K9)."""
        if self._random is None:
            self._random = Random(int.from_bytes(self._digest(seed, "random"), "big"))
        return self._random

    def uuid(self, seed: int) -> uuid.UUID:
        """The next uuid of this unit's own stream (K9)."""
        self._uuids_drawn += 1
        return uuid.UUID(bytes=self._digest(seed, f"uuid {self._uuids_drawn}"), version=4)

    def _digest(self, seed: int, purpose: str) -> bytes:
        return hashlib.blake2b(f"{seed} {self.text} {purpose}".encode(), digest_size=16).digest()


def root_unit() -> Unit:
    """The unit that runs the workflow's own code."""
    return Unit((), "/")
