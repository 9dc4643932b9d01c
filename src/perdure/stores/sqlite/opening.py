"""Opening: a connection to the file, with what durability needs verified; or why there is none, with the remedy."""

from __future__ import annotations

import os
from threading import Event

import apsw

from perdure.errors import StoreUnavailable
from perdure.stores.sqlite import migrations
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.troubles import patiently, trouble

PATIENCE_SECONDS = 30.0
FIRST_WAIT_SECONDS = 0.0005
LONGEST_WAIT_SECONDS = 0.005
STATEMENTS_KEPT = 1024  # APSW forgets one after so many executions of any, and to prepare it anew costs ten times more
FULL = 2  # of `pragma synchronous`
_WRITABLE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


def open_writer(path: str, vfs: str | None = None) -> apsw.Connection:
    """The one connection that writes, on a file that is brought up to date. `StoreUnavailable`, `StoreCorrupt`."""
    _refuse_place(path)
    try:
        return patiently(lambda: _open_writer(path, vfs))
    except apsw.Error as error:
        raise trouble(path, error) from error


def open_reader(path: str, vfs: str | None = None, *, plans_anew: bool = False) -> apsw.Connection:
    """A connection that cannot write, to a file that a writer has opened. `StoreUnavailable`.

    One that `plans_anew` looks at the values of each query for the best plan, which takes longer than most queries.
    """
    try:
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE, vfs)
        _plan_once(connection, not plans_anew)
        Access(connection).write("pragma query_only = on")
    except apsw.Error as error:
        raise trouble(path, error) from error
    return connection


def _plan_once(connection: apsw.Connection, whether: bool) -> None:
    """Keep the plan of a query whatever its values are: SQLite would prepare each join anew, for ten times the cost."""
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, int(whether))


def _open_writer(path: str, vfs: str | None) -> apsw.Connection:
    connection = _connect(path, _WRITABLE, vfs)
    _plan_once(connection, True)
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_place(path: str) -> None:
    folder = os.path.dirname(path)
    if os.path.isdir(path):
        raise StoreUnavailable(f"{path} is a folder: name a file in it, such as {os.path.join(path, 'perdure.db')}")
    if not os.path.isdir(folder):
        raise StoreUnavailable(f"the folder {folder} does not exist: create it, or name a file in another one")
    if os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK):
        raise StoreUnavailable(f"{path} may not be read and written: give this user the right to, or name another file")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StoreUnavailable(
            f"the folder {folder} may not be written, and a store needs to keep files beside {os.path.basename(path)}: "
            "give this user the right to, or name a file in another folder"
        )


def _connect(path: str, flags: int, vfs: str | None) -> apsw.Connection:
    connection = apsw.Connection(path, flags, vfs, STATEMENTS_KEPT)
    connection.set_busy_handler(wait_for_others)
    access = Access(connection)
    for pragma in ("temp_store = memory", "trusted_schema = off", "cell_size_check = on", "cache_size = -16000"):
        access.write(f"pragma {pragma}")
    return connection


def wait_for_others(tries: int) -> bool:
    """Called while another connection is writing: whether to go on waiting, after a moment."""
    if tries * LONGEST_WAIT_SECONDS > PATIENCE_SECONDS:
        return False
    Event().wait(min(FIRST_WAIT_SECONDS * (tries + 1), LONGEST_WAIT_SECONDS))
    return True


def _prepare(connection: apsw.Connection, path: str) -> None:
    access = Access(connection)
    version = _version(access, path)
    _demand(access, path, "journal_mode", "wal")
    _demand(access, path, "synchronous", FULL)
    for pragma in ("fullfsync = on", "checkpoint_fullfsync = on"):
        access.rows(f"pragma {pragma}")
    if version < migrations.NEWEST:
        _migrate(connection, access, path)
    migrations.check(access, path)


def _version(access: Access, path: str) -> int:
    """Which version the file has. In one transaction: somebody else may just be making its tables."""
    access.write("begin")
    try:
        return migrations.version_of(access, path)
    finally:
        if access.connection.in_transaction:
            access.write("rollback")


def _migrate(connection: apsw.Connection, access: Access, path: str) -> None:
    """Migrate, wholly or not at all."""
    access.write("begin immediate")
    try:
        migrations.migrate(access, path)
        access.write("commit")
    except BaseException:
        if connection.in_transaction:
            access.write("rollback")
        raise


def _demand(access: Access, path: str, name: str, wanted: str | int) -> None:
    """Set it, and see that it took."""
    _until_free(access, f"pragma {name} = {wanted}")
    row = access.row(f"pragma {name}")
    if row is None or row[0] != wanted:
        raise StoreUnavailable(
            f"{path} cannot be kept safe here: SQLite refuses {name} = {wanted}, perhaps on a network or read-only "
            "file system. Name a file on a local disk"
        )


def _until_free(access: Access, statement: str) -> None:
    """Changing the journal needs the file alone, and does not wait for it by itself."""
    tries = 0
    while True:
        try:
            access.rows(statement)
            return
        except apsw.BusyError:
            if not wait_for_others(tries):
                raise
            tries += 1
