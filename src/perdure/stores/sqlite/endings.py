"""Endings of leases: everything that is owned under one is handed back, politely or because its holder is gone (E3)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from perdure.errors import StoreCorrupt
from perdure.stores.records import Attempt, Lease
from perdure.stores.sqlite import counters, hands, leases, sql, states, tasks
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.rows import read_task
from perdure.stores.sqlite.worker_rows import LeaseRow, lease_of, read_lease


def close_lease(access: Access, number: int) -> None:
    lease = leases.load(access, number)
    if lease is not None:
        _end(access, lease, "handed_over")


def end_dead_leases(access: Access, is_gone: Callable[[int], bool]) -> list[Lease]:
    """`is_gone` says of a lease's number whether the operating system knows its holder to be gone."""
    dead: list[LeaseRow] = []
    for row in access.rows(sql.LEASES):
        try:
            lease = read_lease(row)
        except StoreCorrupt:
            continue  # nobody can say when it ends: `verify` names it, and what it holds is claimed by nobody
        if lease.expires_us <= access.now_us or is_gone(lease.number):
            dead.append(lease)
    for lease in dead:
        _end(access, lease, "worker_died")
    return [lease_of(lease) for lease in dead]


def _end(access: Access, lease: LeaseRow, outcome: str) -> None:
    access.write(sql.DELETE_LEASE, lease.number)
    with suppress(StoreCorrupt):  # `verify` finds a damaged counter, and it is to hold up nobody
        counters.take_back(access, "leases")
    for number in access.numbers(sql.HOLDING_RUNS, lease.number):
        with suppress(StoreCorrupt):  # its run is put aside below
            hands.put_down_of(access, number)
    for task_id in access.texts(sql.OWNED_TASKS, lease.number):
        _free_task(access, lease, task_id, outcome)
    for number in access.numbers(sql.OWNED_RUNS, lease.number):
        _free_run(access, number)


def _free_task(access: Access, lease: LeaseRow, task_id: str, outcome: str) -> None:
    row = access.row(sql.TASK, task_id)
    assert row is not None
    try:
        task = read_task(row)
        started_us = task.scheduled_us if task.started_us is None else task.started_us
        last = Attempt(
            attempt=task.attempt,
            worker=lease.name,
            started_us=started_us,
            ended_us=access.now_us,
            outcome=outcome,
        )
        tasks.give_back(access, task, access.now_us, last)
    except StoreCorrupt as error:
        tasks.set_task_aside(access, row, error)


def _free_run(access: Access, number: int) -> None:
    try:
        state = states.load(access, number)
        assert state is not None
        state.owner, state.wake_us = None, access.now_us
        states.save(access, state)
    except StoreCorrupt as error:
        states.set_aside(access, number, error)
