"""Leases: one per worker, opened and renewed; and what its holder is to learn of its tasks.

How a lease ends, with all that is owned under it, is in `endings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure.stores.records import Lease
from perdure.stores.sqlite import counters, sql
from perdure.stores.sqlite.access import Access, to_json
from perdure.stores.sqlite.rows import whole_ones
from perdure.stores.sqlite.worker_rows import LeaseRow, lease_of, lease_row, queues_json, read_lease

SECOND_US = 1_000_000


def open_lease(access: Access, name: str, queues: Mapping[str, int], seconds: float) -> Lease:
    lasts_us = round(seconds * SECOND_US)
    lease = LeaseRow(
        number=counters.give(access, "leases"),
        name=name,
        queues=queues_json(queues),
        started_us=access.now_us,
        expires_us=access.now_us + lasts_us,
        lasts_us=lasts_us,
    )
    access.write_row(sql.INSERT_LEASE, lease_row(lease))
    return lease_of(lease)


def renew_lease(access: Access, number: int) -> bool:
    lease = load(access, number)
    if lease is None:
        return False
    lease.expires_us = access.now_us + lease.lasts_us
    save(access, lease)
    return True


def list_leases(access: Access) -> list[Lease]:
    return [lease_of(lease) for lease in whole_ones(access.rows(sql.LEASES), read_lease)]


def list_cancelled(access: Access, number: int) -> list[str]:
    lease = load(access, number)
    return [] if lease is None else lease.revoked()


def alive(access: Access, number: int) -> bool:
    """Whether a lease has not been lost. `StoreCorrupt`."""
    return load(access, number) is not None


def load(access: Access, number: int) -> LeaseRow | None:
    """`StoreCorrupt`."""
    row = access.row(sql.LEASE, number)
    return None if row is None else read_lease(row)


def save(access: Access, lease: LeaseRow) -> None:
    access.write_row(sql.UPDATE_LEASE, (lease.number, lease.expires_us, lease.cancelled, lease_row(lease)[-1]))


def tell(access: Access, owner: int, ids: Iterable[str]) -> None:
    """The holder of a lease is to learn that these tasks of its are not wanted."""
    lease = load(access, owner)
    if lease is not None:
        lease.cancelled = to_json(list(dict.fromkeys([*lease.revoked(), *ids])))
        save(access, lease)


def untell(access: Access, owner: int, task_id: str) -> None:
    """It need not learn of this one any more."""
    lease = load(access, owner)
    if lease is None:
        return
    revoked = lease.revoked()
    if task_id in revoked:
        lease.cancelled = to_json([each for each in revoked if each != task_id])
        save(access, lease)


def numbers(access: Access) -> set[int]:
    """Of all leases that have not ended."""
    return set(access.numbers(sql.LEASE_NUMBERS))
