"""M3: a query that reads through the API answers after completion as it did before."""

from __future__ import annotations

from typing import Any

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


def test_m3_a_query_that_emits_after_completion_fails_only_itself_and_says_so() -> None:
    h = Harness(Reading)
    h.start(signal("end", "bye"))
    answer = h.activate(query("writing")).answers[0]
    assert answer.error is not None
    assert (answer.error.type, h.result) == ("SchedulerViolation", "bye")
    assert "publish() was called from a query, which may only read" in answer.error.message
