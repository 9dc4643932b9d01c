"""Migrations: the numbered scripts that make a file's tables, each applied once, with its checksum."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from importlib.resources import files

from perdure.errors import StoreUnavailable
from perdure.stores.sqlite import counters
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.rows import damaged, sealed, verified

APPLICATION_ID = 0x50726475  # "Prdu", in the header of every file that is ours
NEWEST = 2
_CREATE = """
create table if not exists migrations (number integer primary key, script text not null, seal blob not null) strict"""
_INSERT = "insert into migrations values (?,?,?)"
_APPLIED = "select * from migrations order by number"


@cache
def script(number: int) -> str:
    """The statements of one migration."""
    return files("perdure.stores.sqlite").joinpath(f"schema_{number}.sql").read_text("utf-8")


@cache
def digest(number: int) -> str:
    return blake2b(script(number).encode(), digest_size=16).hexdigest()


def version_of(access: Access, path: str) -> int:
    """Which version the file has; 0 for an empty one. `StoreUnavailable` if it is not ours, or too new."""
    application = access.number("pragma application_id") or 0
    version = access.number("pragma user_version") or 0
    if application != APPLICATION_ID:
        if application or version or access.number("select count(*) from sqlite_schema"):
            raise StoreUnavailable(
                f"{path} is an SQLite database of another program, and was left as it is: name a file of its own"
            )
        return 0
    if version > NEWEST:
        raise StoreUnavailable(
            f"{path} was written by a newer Perdure: its schema is version {version}, this one knows up to {NEWEST}. "
            "Upgrade Perdure here; nothing was changed"
        )
    return version


def migrate(access: Access, path: str) -> None:
    """Bring the file up to date, within a transaction that the caller has begun. `StoreUnavailable`."""
    version = version_of(access, path)
    if version == NEWEST:
        return
    access.write(_CREATE)
    for number in range(version + 1, NEWEST + 1):
        access.write_script(script(number))
        access.write_row(_INSERT, sealed("migrations", (number, digest(number))))
        if number == 1:
            counters.begin(access)
    access.write(f"pragma application_id = {APPLICATION_ID}")
    access.write(f"pragma user_version = {NEWEST}")


def check(access: Access, path: str) -> None:
    """See that the migrations that were applied are those that are known here. `StoreCorrupt`, `StoreUnavailable`."""
    for number, known in enumerate(read_applied(access), 1):
        if known != digest(number):
            raise StoreUnavailable(
                f"{path} has tables that this Perdure does not know: schema {number} was made by another script. "
                "Use the release that made the file; nothing was changed"
            )


def read_applied(access: Access) -> list[str]:
    """The checksums of the migrations that were applied. `StoreCorrupt`."""
    rows = [verified("migrations", row, row[0]) for row in access.rows(_APPLIED)]
    for expected in range(1, NEWEST + 1):
        if expected > len(rows) or rows[expected - 1][0] != expected:
            raise damaged("migrations", expected, "it is missing")
    return [str(row[1]) for row in rows]
