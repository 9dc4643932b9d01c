"""Transacting: what a transactional activity writes with, in one transaction with its result (E5).

An engine hands it out through perdure.define.performing; the store does the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Self, SupportsIndex, overload

from perdure.errors import InvalidValue, TransactionFailed, UsageError

Row = tuple[Any, ...]
Unawaited = dict["Future[list[Row]]", str]  # statements by their rows
Execute = Callable[[str, Sequence[Any] | Mapping[str, Any]], "Future[list[Row]]"]


class Rows(list[Row]):
    """The rows that a statement gave. In an `async def` they are there once they are awaited."""

    def __init__(self, coming: Future[list[Row]], unawaited: Unawaited) -> None:
        super().__init__()
        self._coming: Future[list[Row]] | None = coming
        self._unawaited = unawaited

    def __await__(self) -> Generator[Any, Any, Self]:
        coming, self._coming = self._coming, None
        if coming is not None:
            self._unawaited.pop(coming, None)
            self.extend((yield from asyncio.wrap_future(coming).__await__()))
        return self

    def __iter__(self) -> Iterator[Row]:
        self._refuse_early()
        return super().__iter__()

    def __len__(self) -> int:
        self._refuse_early()
        return super().__len__()

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Row: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[Row]: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> Row | list[Row]:
        self._refuse_early()
        return super().__getitem__(index)

    def __eq__(self, other: object, /) -> bool:
        self._refuse_early()
        return super().__eq__(other)

    def __repr__(self) -> str:
        return "<rows that are not awaited yet>" if self._coming is not None else super().__repr__()

    __hash__ = None

    def _refuse_early(self) -> None:
        if self._coming is not None:
            raise UsageError("these rows are not there yet: in an `async def`, write `await transaction().execute(…)`")

    @classmethod
    def at_once(cls, coming: Future[list[Row]]) -> Rows:
        """Wait for them in this thread."""
        rows = cls(coming, {})
        rows._coming = None
        rows.extend(coming.result())
        return rows


class Transaction:
    """The transaction of a transactional activity: what it writes and its result are durable together, or not at all.

    It begins with the first `execute` and ends when the activity returns; if that raises, nothing was written.
    """

    def __init__(self, execute: Execute, unawaited: Unawaited | None) -> None:
        self._execute = execute
        self._unawaited = unawaited  # None in a plain function

    def execute(self, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> Rows:
        """Run a statement, and give its rows; to be awaited in an `async def`.

        `UsageError` for what a transactional activity may not do; `TransactionFailed` for what the database refuses,
        after which the transaction goes on; `TransactionTimeout` where it took too long.
        """
        _check_statement(sql, params)
        coming = self._execute(sql, params)
        if self._unawaited is not None:
            self._unawaited[coming] = " ".join(sql.split())
            return Rows(coming, self._unawaited)
        if not coming.done() and _on_a_loop():
            raise TransactionFailed(
                "another transactional activity has the write lock, and this engine has no threads in which to wait"
            )
        return Rows.at_once(coming)


def _check_statement(sql: object, params: object) -> None:
    if not isinstance(sql, str):
        raise InvalidValue(f"a statement is text, not {type(sql).__name__}")
    if isinstance(params, str | bytes) or not isinstance(params, Sequence | Mapping):
        raise InvalidValue("parameters are a sequence or a mapping: write (value,) for one")


def not_transactional(name: str) -> UsageError:
    """Why an activity has no transaction."""
    return UsageError(
        f'activity `{name}` has no transaction: declare it with @activity(effect="transactional"), in a thread or '
        "on the loop"
    )


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
