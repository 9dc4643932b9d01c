"""The demo's shop: an order is accepted, charged and shipped, and every activity writes to an append-only log.

Run by `perdure worker`, started by demo, which gives the log's path in PERDURE_DEMO_LOG; ledger reads it.
"""

from __future__ import annotations

import asyncio
import os
import zlib

from perdure import activity, activity_info, sleep, workflow

WORK_SECONDS = 0.06


@activity
async def accept(order: str) -> None:
    """Take the order in."""
    await _work("accept", order)


@activity
async def charge(order: str, cents: int) -> str:
    """Charge the card, once: the key tells the bank whether it has done so before."""
    await _work("charge", order)
    return f"receipt-{order}-{cents}"


@activity
async def ship(order: str, receipt: str) -> None:
    """Send the parcel off."""
    await _work("ship", order)


@workflow
async def fulfil(order: str, cents: int) -> str:
    """One order, from its acceptance to its parcel."""
    await accept(order)
    receipt = await charge(order, cents)
    await sleep(0.2)
    await ship(order, receipt)
    return receipt


async def _work(activity: str, order: str) -> None:
    """Something that takes a while; the log says when it began and when it was done."""
    info = activity_info()
    _append("begin", activity, order, info.key)
    await asyncio.sleep(WORK_SECONDS * (0.5 + zlib.crc32(f"{activity} {order}".encode()) % 100 / 100))
    _append("done", activity, order, info.key)


def _append(what: str, activity: str, order: str, key: str) -> None:
    """One line in one write, which a kill either leaves out or lets stand."""
    line = f"{what} {activity} {order} {key} {os.getpid()}\n"
    file = os.open(os.environ["PERDURE_DEMO_LOG"], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
