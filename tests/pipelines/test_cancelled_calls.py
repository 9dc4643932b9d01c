"""An event whose publisher is cancelled while it is written is consumed all the same (L1, L6)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from perdure import Engine
from perdure.pipelines.topics import Topic
from tests.engine.test_cancelled_calls import quiet
from tests.pipelines.mailing import Desk, Email, mail_to_sheet

PATIENCE_SECONDS = 5


def test_an_event_is_consumed_whose_publisher_is_cancelled(tmp_path: Path) -> None:
    """On a file, whose thread writes what nobody waits for any more. Nobody else writes, and makes the host look."""
    desk = Desk()
    desk.mails = []

    async def scene() -> None:
        async with Engine(f"sqlite:///{tmp_path}/a.db", pipelines=[mail_to_sheet(desk)]) as engine:
            inbox = Topic("mail", "inbox", Email, "")
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await engine.pipelines.runs("mail"):
                    await asyncio.sleep(0)
                await quiet()
                publishing = asyncio.create_task(engine.pipelines.publish(inbox, Email("m", "a letter"), "m"))
                await asyncio.sleep(0)
                publishing.cancel()
                with suppress(asyncio.CancelledError):
                    await publishing
                while not desk.rows:
                    await quiet()

    asyncio.run(scene())
    assert [subject for _, subject in desk.rows] == ["a letter"]
