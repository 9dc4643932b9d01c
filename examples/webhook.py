"""An order that waits for a webhook: a small HTTP server resolves a promise by a key that the bank knows.

python examples/webhook.py [FILE]

The bank calls back twice, as banks do; the order notices one call. The webhook knows no workflow id.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass

from perdure import AlreadyExists, Engine, NotFound, activity, promise, set_state, workflow


@dataclass
class Paid:
    card: str
    cents: int


@activity
def ship(order_id: str) -> str:
    return f"parcel-{order_id}"


@workflow
async def order(order_id: str, cents: int) -> str:
    set_state("step", "waiting for the bank")
    try:
        paid = await promise("payment", Paid, timeout="3d", key=f"payment-{order_id}")
    except TimeoutError:
        return f"{order_id} was never paid"
    set_state("step", "shipping")
    parcel = await ship(order_id)
    return f"{order_id}: {paid.cents} of {cents} cents from {paid.card}, {parcel}"


async def serve(engine: Engine) -> asyncio.Server:
    """What a web framework does otherwise: POST /payments/<order> with a JSON body."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split()[1]
        length = int(head.lower().split("content-length:")[1].split()[0])
        body = json.loads(await reader.readexactly(length))
        status = await settle(engine, path.rpartition("/")[2], body)
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    return await asyncio.start_server(respond, "127.0.0.1", 0)


async def settle(engine: Engine, order_id: str, paid: object) -> str:
    """The status to answer: durable before the bank is told that all is well."""
    try:
        await engine.resolve_promise(f"payment-{order_id}", paid)
    except NotFound:
        return "404 Not Found"
    except AlreadyExists:
        return "409 Conflict"
    return "200 OK"


async def bank_calls(port: int, order_id: str, paid: object) -> str:
    """What the bank does: it posts, and gets a status."""
    body = json.dumps(paid).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /payments/{order_id} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    status = (await reader.readline()).decode().partition(" ")[2].strip()
    writer.close()
    return status


async def main(file: str) -> None:
    """One order, its webhook, and what the bank is told."""
    async with Engine(f"sqlite:///{file}", workflows=[order], activities=[ship]) as engine:
        handle = await engine.start(order, "o-1", 990, id="order-o-1")
        async with await serve(engine) as server:
            port = server.sockets[0].getsockname()[1]
            paid = {"card": "4711", "cents": 990}
            print("first call: ", await bank_calls(port, "o-1", paid))
            print("the same:   ", await bank_calls(port, "o-1", paid))
            print("another:    ", await bank_calls(port, "o-1", {"card": "0815", "cents": 1}))
            print("no such one:", await bank_calls(port, "o-2", paid))
        print("result:     ", await handle.result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "webhook.db"))
