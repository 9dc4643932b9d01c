"""Urgency: the most urgent of what is due, priority by priority, each by one look into an index for each queue.

One order over priority and time would walk over all that is not due yet, a million sleeping runs perhaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from perdure.stores.sqlite.access import Access, Row, Value, int_of

Key = TypeVar("Key")
ABOVE_ALL = 2**63 - 1
NextBelow = Callable[[int], int | None]


def next_below(access: Access, sql: str, queues: Sequence[str]) -> NextBelow:
    """How to find the largest priority below one, over these queues."""

    def find(priority: int) -> int | None:
        found = (access.number(sql, queue, priority) for queue in queues)
        return max((each for each in found if each is not None), default=None)

    return find


def most_urgent(below: NextBelow, due_of: Callable[[int, int], list[Row]], limit: int) -> list[Value]:
    """Up to so many keys, the largest priority first, then the earliest.

    `due_of` gets a priority and how many there is room for, and gives times with keys, the earliest first.
    """
    found: list[Value] = []
    priority = below(ABOVE_ALL)
    while priority is not None and len(found) < limit:
        found += [key for _, key in due_of(priority, limit - len(found))]
        priority = below(priority)
    return found


def earliest_first(rows: list[Row], queues: int, room: int) -> list[Row]:
    """The rows of several queues as those of one."""
    return rows if queues == 1 else sorted(rows, key=lambda row: int_of(row[0]) or 0)[:room]


def earliest(access: Access, below: str, first_of: str, queues: Sequence[str]) -> int | None:
    """The earliest moment over all priorities of these queues."""
    moments: list[int] = []
    for queue in queues:
        find = next_below(access, below, [queue])
        priority = find(ABOVE_ALL)
        while priority is not None:
            if (first := access.number(first_of, queue, priority)) is not None:
                moments.append(first)
            priority = find(priority)
    return min(moments, default=None)
