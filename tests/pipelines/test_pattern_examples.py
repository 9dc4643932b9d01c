"""Each pattern of the seed's table is a program in examples/, and does what the table says (L5, L6)."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perdure.testing import VirtualClock

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline_patterns.py"
HOUR = 3_600
EIGHT_IN_MADRID = datetime(2026, 6, 1, 6, tzinfo=UTC)


@pytest.fixture
def patterns() -> ModuleType:
    """The example, afresh."""
    spec = importlib.util.spec_from_file_location("pipeline_patterns", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pipeline_patterns"] = module
    spec.loader.exec_module(module)
    return module


async def test_first_come_first_served(engine: Callable[..., Any], patterns: Any) -> None:
    """Always at once, the oldest first, until nothing is left."""
    async with engine(pipelines=[patterns.fifo]) as running:
        for number in range(3):
            await running.pipelines.publish(patterns.tickets, str(number))
        await asyncio.sleep(1)
        assert patterns.said == ["served 0", "served 1", "served 2"]


async def test_correlation_waits_for_the_other_event(engine: Callable[..., Any], patterns: Any) -> None:
    """It runs once per event, reserves nothing until both are there, and does not poll meanwhile."""
    async with engine(pipelines=[patterns.correlation]) as running:
        await running.pipelines.publish(patterns.orders, "o-1")
        await running.pipelines.publish(patterns.orders, "o-2")
        await asyncio.sleep(100 * HOUR)
        assert patterns.said == []
        assert len(await running.pipelines.runs("correlation")) <= 3
        await running.pipelines.publish(patterns.payments, "o-2")
        await asyncio.sleep(1)
        assert patterns.said == ["shipped o-2"]
        assert [one.status for one in await running.pipelines.events("correlation", "orders")] == [
            "pending",
            "consumed",
        ]


async def test_a_time_window_is_waited_for(engine: Callable[..., Any], patterns: Any) -> None:
    """`wake_at` an hour later; what is published again meanwhile is sent as it is then (L1)."""
    async with engine(pipelines=[patterns.window]) as running:
        await running.pipelines.publish(patterns.drafts, "draft", message_id="d")
        await asyncio.sleep(HOUR - 60)
        await running.pipelines.publish(patterns.drafts, "final", message_id="d")
        assert patterns.said == []
        await asyncio.sleep(61)
        assert patterns.said == ["sent final"]


async def test_a_batch_goes_when_it_is_full_or_old(engine: Callable[..., Any], patterns: Any) -> None:
    """Whichever comes first."""
    async with engine(pipelines=[patterns.batches]) as running:
        for number in range(4):
            await running.pipelines.publish(patterns.lines, number)
        await asyncio.sleep(1)
        assert patterns.said == ["uploaded [0, 1, 2]"]
        await asyncio.sleep(HOUR - 2)
        assert len(patterns.said) == 1
        await asyncio.sleep(2)
        assert patterns.said[1:] == ["uploaded [3]"]


async def test_a_digest_comes_at_nine_across_a_change_of_the_clock(
    engine: Callable[..., Any], virtual_clock: VirtualClock, patterns: Any
) -> None:
    """Events wake it, and it reserves nothing until nine by the wall clock; a month with the last Sunday of October."""
    start = datetime(2026, 10, 10, 5, tzinfo=UTC)
    async with engine(pipelines=[patterns.daily], start=start) as running:
        sent: list[datetime] = []
        real = patterns.said

        class Watched(list[str]):
            def append(self, line: str) -> None:
                sent.append(virtual_clock.now)
                super().append(line)

        patterns.said = Watched(real)
        for day in range(30):
            await running.pipelines.publish(patterns.news, f"day {day}")
            await asyncio.sleep(24 * HOUR)
        assert patterns.said == [f"digest: day {day}" for day in range(30)]
        local = [moment.astimezone(patterns.MADRID) for moment in sent]
        assert {(one.hour, one.minute) for one in local} == {(9, 0)}
        offsets = {one.utcoffset() for one in local}
        assert offsets == {timedelta(hours=1), timedelta(hours=2)}


def test_the_program_plays_two_days() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, timeout=60)
    assert sorted(done.stdout.splitlines()) == [
        "digest: it has stopped",
        "digest: it rains",
        "sent the final text",
        *(f"served ticket {number}" for number in range(4)),
        "shipped o-1",
        "uploaded [0, 1, 2]",
        "uploaded [3]",
    ]
