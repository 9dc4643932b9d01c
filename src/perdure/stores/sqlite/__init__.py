"""The store in one SQLite file: `store` START HERE · writer · one module per table's transitions · rows · sql."""

from __future__ import annotations

from perdure.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
