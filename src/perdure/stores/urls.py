"""URLs: which store a text names; the store is made here, and opened by whoever asked."""

from __future__ import annotations

from perdure.clock import Clock
from perdure.codec import shown
from perdure.errors import InvalidValue
from perdure.model.ids import check_id
from perdure.stores.memory import MemoryStore
from perdure.stores.port import Store

FORMS = "memory://, memory://name, or sqlite:///file.db"


def store_of(url: object, clock: Clock, *, threads: bool = True) -> Store:
    """The store that a URL names. `InvalidValue` for a malformed one.

    Without `threads` everything that the store does happens on the calling thread.
    """
    if not isinstance(url, str):
        raise InvalidValue(f"the URL of a store is text such as {FORMS}, not {type(url).__name__}")
    scheme, separator, rest = url.partition("://")
    if scheme == "memory" and separator:
        return MemoryStore(clock, check_id(rest, "the name of a store in memory") if rest else None)
    if scheme == "sqlite" and separator:
        from perdure.stores.sqlite import SqliteStore

        return SqliteStore(_path(url, rest), clock, threads=threads)
    raise InvalidValue(f"{shown(url)} names no store: its form is {FORMS}")


def _path(url: str, rest: str) -> str:
    path = rest[1:]
    if not rest.startswith("/") or not path or "\0" in path or not _is_text(path):
        raise InvalidValue(
            f"{shown(url)} names no file: write sqlite:///file.db for one in this folder, "
            "sqlite:////folder/file.db for another"
        )
    return path


def _is_text(path: str) -> bool:
    """SQLite names its files in UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
