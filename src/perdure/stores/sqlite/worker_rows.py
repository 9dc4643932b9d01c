"""Rows of leases and questions: what workers, and those who ask them, tell each other through the store."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from perdure.stores.records import Lease, Question
from perdure.stores.sqlite.access import Row, to_json
from perdure.stores.sqlite.rows import sealed, verified

_queues = msgspec.json.Decoder(dict[str, int]).decode
_ids = msgspec.json.Decoder(list[str]).decode
_values_of = msgspec.structs.astuple


class LeaseRow(msgspec.Struct):
    """A row of `leases`, in the order of its columns."""

    number: int
    name: str
    queues: bytes
    started_us: int
    expires_us: int
    lasts_us: int  # from each renewal
    cancelled: bytes = b"[]"

    def revoked(self) -> list[str]:
        """The tasks that its holder is to learn about."""
        return _ids(self.cancelled)


def lease_row(lease: LeaseRow) -> Row:
    return sealed("leases", _values_of(lease))


def read_lease(row: Row) -> LeaseRow:
    """`StoreCorrupt`."""
    return LeaseRow(*cast("Any", verified("leases", row, row[0])))


def lease_of(row: LeaseRow) -> Lease:
    return Lease(
        number=row.number,
        name=row.name,
        queues=_queues(row.queues),
        started_us=row.started_us,
        expires_us=row.expires_us,
    )


def read_question(row: Row) -> tuple[Question, bytes | None]:
    """The question and its answer. `StoreCorrupt`."""
    values: Any = verified("questions", row, row[0])
    return Question(*values[:6]), values[7]


def queues_json(queues: Any) -> bytes:
    """The queues of a lease, as they are kept."""
    return to_json(dict(queues))
