"""M3: a query that reads through the API answers after completion as before; one that changes the run is told so."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest

import perdure
from perdure import attributes, cancelled, get_state, info, now, pending, publish, receive, set_state, workflow
from perdure.testing import Harness, evict, query, signal


@workflow
class Reading:
    async def run(self) -> str:
        set_state("step", 1)
        attributes(owner="ada")
        return await receive("end", str)

    @perdure.query
    def everything(self) -> list[Any]:
        told = info()
        return [now().isoformat(), get_state("step", int), told.attributes, told.turn, pending("other"), cancelled()]

    @perdure.query
    def writing(self) -> None:
        publish("written by a query")


def test_m3_a_query_reads_time_state_and_signals_after_completion_too() -> None:
    h = Harness(Reading)
    h.start(signal("other", 1))
    before = h.activate(query("everything")).answers[0]
    h.activate(signal("end", "bye"))
    assert h.done
    after = h.activate(query("everything")).answers[0]
    h.activate(evict())
    rebuilt = h.activate(query("everything")).answers[0]
    expected = ["2026-01-01T00:00:00+00:00", 1, {"owner": "ada"}]
    assert (before.value, before.error) == ([*expected, 1, 1, False], None)
    assert after.value == rebuilt.value == [*expected, 2, 1, False]


class Held:
    """Something of the author's own that a run holds."""

    def __init__(self) -> None:
        self.count = 0


@workflow
class Holding:
    __slots__ = ("__dict__", "_slot")

    def __init__(self) -> None:
        self.items = ["tea"]
        self.by_name: defaultdict[str, int] = defaultdict(int)
        self.held = Held()
        self.waiting: deque[int] = deque([1])
        self.done = asyncio.Event()
        self.first: str | None = None
        self.make = lambda: 5
        self.large = [2**70]
        self._slot = 1

    async def run(self) -> list[Any]:
        await receive("end", str)
        return [self.items, dict(self.by_name), self.held.count, list(self.waiting), self.done.is_set(), self.first]

    @perdure.query
    def pollutes(self, how: str) -> str:
        CHANGES[how](self)
        return "done"

    @perdure.query
    def looks(self) -> list[Any]:
        copy = sorted(self.items)
        copy.append("x")
        return [copy, self.by_name.get("x"), self.make(), self.done.is_set(), self.held.count, self.large[0] > 5]

    @perdure.query
    def fails(self) -> None:
        self.items.clear()
        raise ValueError("after it changed something")


def misses(run: Holding) -> object:
    """Looking up what is not there makes it."""
    return run.by_name["nobody"]


CHANGES: dict[str, Callable[[Holding], object]] = {
    "items": lambda run: run.items.append("coffee"),
    "by_name": misses,
    "held": lambda run: setattr(run.held, "count", 1),
    "waiting": lambda run: run.waiting.popleft(),
    "first": lambda run: setattr(run, "first", "me"),
    "new": lambda run: setattr(run, "new", 1),
    "large": lambda run: delattr(run, "large"),
    "_slot": lambda run: setattr(run, "_slot", 2),
}
UNTOUCHED: list[Any] = [["tea"], {}, 0, [1], False, None]


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_m3_a_query_that_changes_the_run_fails_only_itself(name: str) -> None:
    """The run is as it was, live as after a rebuild: the copy that the query has changed is not used any more."""
    h = Harness(Holding)
    h.start()
    answer = h.activate(query("pollutes", name)).answers[0]
    assert answer.error is not None
    assert answer.error.type == "SchedulerViolation"
    assert f"query `pollutes` changed self.{name}, and may only read" in answer.error.message
    assert h.activate(query("looks")).answers[0].value == [["tea", "x"], None, 5, False, 0, True]
    h.activate(signal("end", ""))
    assert h.result == UNTOUCHED


def test_m3_what_a_query_changed_before_it_failed_is_undone_too() -> None:
    h = Harness(Holding)
    h.start()
    answer = h.activate(query("fails")).answers[0]
    assert answer.error is not None
    assert answer.error.type == "SchedulerViolation"
    h.activate(signal("end", ""))
    assert h.result == UNTOUCHED


def test_m3_a_query_that_emits_after_completion_fails_only_itself_and_says_so() -> None:
    h = Harness(Reading)
    h.start(signal("end", "bye"))
    answer = h.activate(query("writing")).answers[0]
    assert answer.error is not None
    assert (answer.error.type, h.result) == ("SchedulerViolation", "bye")
    assert "publish() was called from a query, which may only read" in answer.error.message
