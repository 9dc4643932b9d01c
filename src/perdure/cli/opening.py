"""Opening: the store that a command works on, seen to be there before anything could create it.

In:  every command that needs a store.
Out: perdure.app.Client.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from perdure.cli.mistakes import Wrong

if TYPE_CHECKING:
    from perdure.app import Client

T = TypeVar("T")
SQLITE = "sqlite:///"
MAGIC = b"SQLite format 3\0"


def with_client(
    url: str,
    act: Callable[[Client], Awaitable[T]],
    *,
    may_create: bool = False,
    workflows: Iterable[object] = (),
    activities: Iterable[object] = (),
) -> T:
    """Do something with a client of this store, which knows these, and close it."""
    check_store(url, may_create=may_create)

    async def go() -> T:
        from perdure.app import Client

        async with Client(url, workflows=workflows, activities=activities) as client:
            return await act(client)

    return asyncio.run(go())


def check_store(url: str, *, may_create: bool = False, may_be_private: bool = False, checks_kind: bool = True) -> None:
    """`Wrong` for a URL that this command cannot mean: no file there, another kind of file, a memory of its own."""
    if url.startswith("memory:") and not may_be_private:
        raise Wrong(
            f"{url} lives inside one process, and nothing of it is here",
            "name a file: --store sqlite:///perdure.db, or set PERDURE_STORE",
        )
    if not url.startswith(SQLITE):
        return  # the client says which forms there are
    path = url[len(SQLITE) :]
    if not path or "\0" in path:
        return
    if os.path.isfile(path):
        if checks_kind and not _is_sqlite(path):
            raise Wrong(f"{path} is no SQLite database", "name another file with --store; nothing was written")
    elif not may_create and not os.path.exists(path):
        raise Wrong(
            f"there is no store at {path}",
            "--store or PERDURE_STORE names it; `perdure start`, `perdure worker` or your program creates one",
        )
    elif os.path.isdir(path):
        raise Wrong(f"{path} is a folder", f"name a file in it: --store {SQLITE}{os.path.join(path, 'perdure.db')}")
    elif not os.path.isdir(os.path.dirname(path) or "."):
        raise Wrong(f"the folder {os.path.dirname(path)} does not exist", "create it, or name a file in another one")


def _is_sqlite(path: str) -> bool:
    from perdure.stores.sqlite.intruders import is_open

    if is_open(path):  # by this very process: it is one, and reading it here would drop the locks that it has
        return True
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC))
    except OSError:
        return True  # the store says why it cannot be read
    return start in (b"", MAGIC)
