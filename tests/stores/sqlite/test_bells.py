"""Bells: a loop hears its store's threads, in order, also what was rung for last; no bell is left hanging."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from perdure.clock import SystemClock
from perdure.stores.sqlite import SqliteStore
from perdure.stores.sqlite.bells import Bell


def rung(numbers: Sequence[int], *, close: bool) -> list[int]:
    """What a loop hears of so many rings from another thread."""

    async def hear() -> list[int]:
        heard: list[int] = []
        all_heard = asyncio.Event()

        def call(what: Sequence[Any]) -> None:
            heard.extend(what)
            if len(heard) == len(numbers):
                all_heard.set()

        bell = Bell(call)
        ringing = Thread(target=lambda: [bell.ring([number]) for number in numbers])
        ringing.start()
        if close:
            ringing.join()
            bell.close()
        await all_heard.wait()
        ringing.join()
        bell.close()
        await asyncio.sleep(0)
        return heard

    return asyncio.run(hear())


@pytest.mark.parametrize("close", [False, True])
def test_all_that_was_rung_for_is_heard_in_order_also_when_the_bell_is_closed_meanwhile(close: bool) -> None:
    assert rung(range(500), close=close) == list(range(500))


def test_a_system_without_an_eventfd_is_woken_as_asyncio_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "eventfd")
    assert rung(range(50), close=False) == list(range(50))


def test_ringing_for_a_loop_that_was_closed_is_refused() -> None:
    async def hang() -> Bell:
        return Bell(print)

    bell = asyncio.run(hang())
    with pytest.raises(RuntimeError, match="closed"):
        bell.ring([1])


def test_a_store_leaves_no_open_file_behind(tmp_path: Path) -> None:
    async def open_and_close(times: int) -> int:
        for _ in range(times):
            store = SqliteStore(tmp_path / "a.db", SystemClock())
            await store.open()
            await store.counts()
            await store.close()
        await asyncio.sleep(0)
        return len(os.listdir("/proc/self/fd"))

    assert asyncio.run(open_and_close(1)) == asyncio.run(open_and_close(5))


def test_calls_from_another_loop_than_the_one_that_opened_the_store_are_answered_there(tmp_path: Path) -> None:
    async def call_from_both() -> tuple[int, int]:
        store = SqliteStore(tmp_path / "a.db", SystemClock())
        await store.open()
        elsewhere = await asyncio.to_thread(lambda: asyncio.run(counted(store)))
        here = await counted(store)
        await store.close()
        return here, elsewhere

    async def counted(store: SqliteStore) -> int:
        return (await store.counts())["runs"]

    assert asyncio.run(call_from_both()) == (0, 0)
