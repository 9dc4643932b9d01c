"""A mailbox is copied into a sheet, each message exactly once, although the process dies again and again.

python examples/mail_to_sheet.py [--days 30] [--every 5m] [--crashes 40] [--seed 1]

"Poll this mailbox every five minutes, put what matters into that sheet, send a digest at nine": declared below, between
the lines. Around it is a small server with the mailbox and the sheet, and a month on virtual time in which the engine
crashes: every other time just after the sheet has appended a row and before it has said so. The sheet keeps whatever it
is given, twice if it is given twice; the audit at the end reads the sheet, and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from perdure import Engine
from perdure.pipelines import (
    MutateContext,
    NextContext,
    Outcome,
    Pipeline,
    PrepareContext,
    Prepared,
    ProducerContext,
    ReconcileContext,
    not_applied,
)
from perdure.testing import VirtualClock, run_virtual

PER_ROW = 10  # messages in one row of the sheet


@dataclass
class Email:
    """A message."""

    id: str
    subject: str


# --------------------------------------------------------------------------------------------------
# The pipeline: this is all that a user writes.


def mail_to_sheet(desk: Desk, every: str) -> Pipeline:
    """From the mailbox to the sheet, and at nine a digest of what came."""
    mail = Pipeline("mail-to-sheet")
    inbox = mail.topic("inbox", Email)
    rows = mail.topic("rows", str)

    @mail.producer(every=every, publishes=[inbox])
    async def poll(ctx: ProducerContext, cursor: int | None) -> int:
        found = await desk.ask("mail", after=cursor or 0)
        for one in found["messages"]:
            await ctx.publish(inbox, Email(**one), message_id=one["id"])
        return found["cursor"]

    @mail.consumer(inbox, publishes=[rows])
    class ToSheet:
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared:
            events = await ctx.peek(inbox, limit=PER_ROW)
            return Prepared({inbox: [one.id for one in events]}, [one.payload for one in events])

        async def mutate(self, ctx: MutateContext, prepared: Prepared) -> int:
            messages = [asdict(one) for one in prepared.read(list[Email])]
            return await ctx.perform(desk.append, "sheet", ctx.key, messages)

        async def reconcile(self, ctx: ReconcileContext, prepared: Prepared) -> int:
            return await desk.look_up("sheet", ctx.key)

        async def next(self, ctx: NextContext, prepared: Prepared, outcome: Outcome) -> None:
            if outcome.status == "success":
                for one in prepared.read(list[Email]):
                    await ctx.publish(rows, one.subject, message_id=one.id)

    @mail.consumer(rows)
    class Digest:
        async def prepare(self, ctx: PrepareContext, day: str | None) -> Prepared:
            nine = ctx.now.replace(hour=9, minute=0, second=0, microsecond=0)
            if ctx.now < nine or day == str(ctx.now.date()):
                return Prepared(wake_at=nine if ctx.now < nine else nine + timedelta(days=1))
            events = await ctx.peek(rows, limit=1000)
            return Prepared(
                {rows: [one.id for one in events]}, [one.payload for one in events], nine + timedelta(days=1)
            )

        async def mutate(self, ctx: MutateContext, prepared: Prepared) -> int:
            return await ctx.perform(desk.append, "digests", ctx.key, prepared.data)

        async def reconcile(self, ctx: ReconcileContext, prepared: Prepared) -> int:
            return await desk.look_up("digests", ctx.key)

        async def next(self, ctx: NextContext, prepared: Prepared, outcome: Outcome) -> str | None:
            return str(ctx.now.date()) if outcome.status == "success" else None

    return mail


class Desk:
    """How the pipeline talks to the server."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def ask(self, what: str, **arguments: Any) -> Any:
        """One request, one reply."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(json.dumps({"what": what, **arguments}).encode() + b"\n")
            return json.loads(await reader.readline())  # nothing, where the server does not reply: that is an error
        finally:
            writer.close()

    async def append(self, table: str, key: str, value: Any) -> int:
        """Append a row; where it stands."""
        return await self.ask("append", table=table, key=key, value=value)

    async def look_up(self, table: str, key: str) -> int:
        """Where the row of this key stands, if there is one."""
        place = await self.ask("find", table=table, key=key)
        if place is None:
            raise not_applied("the sheet has no such row")
        return place


# --------------------------------------------------------------------------------------------------
# The outside: a server with a mailbox that fills, and tables that keep whatever they are given.


class Server:
    """On a port of this machine."""

    def __init__(self, clock: VirtualClock, messages: list[tuple[datetime, Email]]) -> None:
        self.tables: dict[str, list[tuple[str, Any]]] = {"sheet": [], "digests": []}
        self.port = 0
        self.crash = asyncio.Event()  # set: now would be a good moment
        self.crash_after_append = False
        self.crashed_after_append = 0
        self._clock = clock
        self._messages = messages
        self._server: asyncio.Server | None = None
        self.tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Listen no more."""
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            line = await reader.readline()
            reply = self._reply(**json.loads(line)) if line else None
            if self.crash.is_set():
                await reader.read()  # no reply: whoever has asked dies just now
                return
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
        except ConnectionError:
            pass  # whoever has asked is dead
        finally:
            writer.close()
            self.tasks.discard(task)

    def _reply(self, what: str, **given: Any) -> Any:
        if what == "mail":
            arrived = [mail for at, mail in self._messages if at <= self._clock.now]
            return {"messages": [asdict(one) for one in arrived[given["after"] :]], "cursor": len(arrived)}
        table = self.tables[given["table"]]
        if what == "find":
            return next((place for place, (key, _) in enumerate(table) if key == given["key"]), None)
        table.append((given["key"], given["value"]))
        if self.crash_after_append:
            self.crash_after_append = False
            self.crashed_after_append += 1
            self.crash.set()
        return len(table) - 1


# --------------------------------------------------------------------------------------------------
# A month, with crashes.


async def month(folder: Path, clock: VirtualClock, options: argparse.Namespace) -> int:
    """Live through it, and look at the sheet. The exit code."""
    chosen = random.Random(options.seed)
    begin = clock.now
    end = begin + timedelta(days=options.days)
    arrivals = sorted(begin + (end - begin - timedelta(days=1)) * chosen.random() for _ in range(options.days * 8))
    messages = [(at, Email(f"m-{number}", f"subject {number}")) for number, at in enumerate(arrivals)]
    server = Server(clock, messages)
    await server.start()
    pause = (end - begin).total_seconds() / (options.crashes + 1)
    lives: list[Engine] = []  # kept: what is left of the dead hangs until the end
    for number in range(options.crashes):
        after = chosen.uniform(0.5, 1) * pause
        lives.append(await live(folder, clock, server, options, crash_after=after, at_append=number % 2 == 0))
    await live(folder, clock, server, options, until=end)
    server.stop()
    return audit(server, messages, options)


async def live(
    folder: Path,
    clock: VirtualClock,
    server: Server,
    options: argparse.Namespace,
    *,
    crash_after: float = 0,
    at_append: bool = False,
    until: datetime | None = None,
) -> Engine:
    """One life of the engine, which ends as if by `kill -9`, or well if `until` is given."""
    from perdure.stores.sqlite import SqliteStore
    from perdure.testing.crashing import CrashingStore

    mortal = CrashingStore(SqliteStore(folder / "mail.db", clock, threads=False), then="hang")
    pipeline = mail_to_sheet(Desk(server.port), options.every)
    surroundings: Any = {"clock": clock, "threads": False, "rng": random.Random(clock.now_us()), "lease": "90d"}
    engine = Engine(mortal.as_store(), pipelines=[pipeline], **surroundings)
    before = asyncio.all_tasks()
    await engine.open()
    if until is not None:
        await asyncio.sleep((until - clock.now).total_seconds())
        await engine.close()
        return engine
    await asyncio.sleep(crash_after)
    if at_append:
        server.crash_after_append = True
        await server.crash.wait()
    await mortal.bury()  # what the system does when a process is killed
    dead = asyncio.all_tasks() - before - server.tasks
    for task in dead:
        task.cancel()
    await asyncio.wait(dead, timeout=60)
    server.crash.clear()
    return engine


def audit(server: Server, messages: list[tuple[datetime, Email]], options: argparse.Namespace) -> int:
    """Each message once, in order; each digest once a day, and in all of them each message once."""
    written = [one["id"] for _, row in server.tables["sheet"] for one in row]
    told = [subject for _, digest in server.tables["digests"] for subject in digest]
    wanted = [mail.id for _, mail in messages]
    doubled = sum(count - 1 for count in Counter(written).values()) + sum(count - 1 for count in Counter(told).values())
    lost = len(set(wanted) - set(written)) + len(messages) - len(set(told))
    print(
        f"{options.days} days, {options.crashes} crashes, "
        f"{server.crashed_after_append} of them between append and reply"
    )
    print(f"messages {len(wanted)}, rows {len(server.tables['sheet'])}, digests {len(server.tables['digests'])}")
    print(f"lost {lost}, doubled {doubled}, in order: {'yes' if written == wanted else 'no'}")
    return 0 if lost == doubled == 0 and written == wanted else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--every", default="5m")
    parser.add_argument("--crashes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    clock = VirtualClock(datetime(2026, 6, 1, tzinfo=UTC))
    with tempfile.TemporaryDirectory() as folder:
        return run_virtual(month(Path(folder), clock, options), clock=clock)


if __name__ == "__main__":
    raise SystemExit(main())
