"""Transactional activities on a file: one run of one activity, and what it has written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import apsw

from perdure import (
    ActivityFailed,
    Engine,
    Retry,
    activity,
    workflow,
)

Opened = Callable[..., Any]
Act = Callable[[Any, Any], Coroutine[Any, Any, Any]]
CREATE = "create table if not exists ledger (who text, n int unique)"
INSERT = "insert into ledger values (?, ?)"
ONCE = Retry(attempts=1)


def transactional(work: Callable[..., Any], **options: Any) -> Any:
    """An activity that does this."""
    given: Any = {"effect": "transactional", "name": "work", "retry": ONCE, **options}
    return activity(**given)(work)


def played(path: Path, work: Callable[..., Any], act: Act | None = None, *, lease: float = 10, **options: Any) -> Any:
    """What a run of this activity comes to, on a file: its value, or the failure's type and message."""
    made = transactional(work, **options)

    @workflow
    async def flow() -> Any:
        try:
            return await made()
        except ActivityFailed as failed:
            return [failed.failure.type, failed.failure.message]

    async def main() -> Any:
        async with Engine(url_of(path), workflows=[flow], activities=[made], lease=lease) as e:
            handle = await e.start(flow, id="r")
            return await (handle.result(timeout=30) if act is None else act(e, handle))

    return asyncio.run(main())


def url_of(path: Path) -> str:
    return f"sqlite:///{path / 'a.db'}"


def ledger(path: Path) -> list[tuple[Any, ...]]:
    """What the activities have written."""
    try:
        return read(path, "select * from ledger order by n")
    except apsw.SQLError:
        return []


def read(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What anybody else sees in the file."""
    connection: Any = apsw.Connection(str(path / "a.db"))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
