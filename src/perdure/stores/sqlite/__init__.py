"""The store in one SQLite file: `store` START HERE · sides · lines · groups · a module for each table · rows · sql."""

from __future__ import annotations

from perdure.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
