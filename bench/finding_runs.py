"""What the bench of finding looks for, and a file of runs to look in, as a shop that is two weeks old has them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import UUID

import apsw

from perdure.clock import SystemClock
from perdure.stores.records import Blocked, NewRun, Parent
from perdure.stores.sqlite import SqliteStore, attributes, finding_sql, found, sql
from perdure.stores.sqlite.access import Access, Row, to_json
from perdure.stores.sqlite.rows import State, facts_row, sealed, state_row

SECOND_US = 1_000_000
CHUNK = 20_000
STATUSES = {"completed": 880, "running": 60, "failed": 50, "cancelled": 6, "timed_out": 4}
TYPES = {"checkout": 50, "refund": 20, "report": 20, "signup": 9, "audit": 1}
TAGS = ("gift", "fragile", "express", "cold", "heavy", "return", "b2b", "sale")
NAMES = ("customer", "region", "vip", "amount", "weight", "due", "tags", "scores", "city")
PLACES = {name: place for place, name in enumerate(NAMES, 1)}
PLAIN = (
    "",
    "status = 'completed'",
    "status = 'running'",
    "status = 'timed_out'",
    "status = 'terminated'",
    "status in ('failed', 'timed_out')",
    "status != 'completed'",
    "type = 'checkout'",
    "type = 'audit'",
    "type like 're%'",
    "type = 'checkout' and status = 'completed'",
    "type = 'checkout' and status = 'failed'",
    "type = 'audit' and status = 'running'",
    "started > '-1h'",
    "started > '-5d'",
    "started < '-11d'",
    "started > '-6d' and started < '-5d'",
    "closed > '-1h'",
    "closed < '-5d'",
    "closed > '-6d' and closed < '-5d' and status = 'failed'",
    "type = 'checkout' and status = 'completed' and started > '-6d' and started < '-2d'",
    "started < '-11d' and status = 'completed' and type = 'checkout'",
    "blocked = true",
    "blocked = true and type = 'checkout'",
    "blocked = false",
    "blocked = false and status = 'running'",
    "generation = 0",
    "generation > 0",
    "generation >= 3 and status = 'completed'",
    "generation < 2 and type = 'checkout'",
    "priority > 0",
    "priority = 0 and queue = 'default'",
    "queue = 'mail'",
    "queue != 'default' and status = 'failed'",
    "parent like '%'",
    "not parent like '%'",
    "not parent like '%' and status = 'completed'",
    "parent > '8' and status = 'completed'",
    "id = 'order-777777'",
    "id like 'order-7777%'",
    "id like 'order-7777%' and status = 'completed'",
    "id like 'order-%'",
    "id like 'order-%' and status = 'completed'",
    "id like '%77%'",
    "id like '%777777'",
    "id like '%77%' and status = 'completed'",
    "id like '%7_7%' or id like '%99'",
    "not id like '%77%'",
    "id > 'order-5' and type = 'checkout'",
    "run_id != 'x' and status = 'completed'",
)
BY_ATTRIBUTES = (
    "customer = 'c-77'",
    "customer != 'c-77'",
    "customer like 'c-77%'",
    "customer like '%77%'",
    "customer like '%77%' and status = 'completed'",
    "customer > 'c-5' and region = 'eu'",
    "region = 'eu'",
    "region = 'nowhere'",
    "region = 'eu' and status = 'completed'",
    "region = 'eu' and status = 'failed'",
    "region = 'eu' and status = 'terminated'",
    "region = 'eu' and type = 'checkout' and status = 'completed' and started > '-6d'",
    "region = 'eu' and closed < '-11d'",
    "region = 'eu' and blocked = true",
    "region = 'eu' and vip = true",
    "region in ('eu', 'us')",
    "region in ('eu', 'us') and status = 'running'",
    "region in ('eu', 'us') and status in ('completed', 'failed')",
    "region != 'eu'",
    "region != 'eu' and status = 'running'",
    "region != 'eu' and not vip = true and status != 'failed'",
    "not (region = 'eu' and vip = true)",
    "not (region = 'eu' or vip = true) and type = 'checkout'",
    "(region = 'eu' and amount > 500) or (region = 'us' and amount < 100)",
    "region = 'eu' or status = 'failed' or amount > 900",
    "(type = 'checkout' or type = 'refund') and (region = 'us' or vip = true) and not amount < 250",
    "vip = true",
    "vip != true",
    "amount > 990",
    "amount > 100",
    "amount >= 0",
    "amount < 0",
    "amount >= 0 and status = 'completed'",
    "amount < 500",
    "amount > 100 and status = 'failed'",
    "amount > 100 and status = 'completed'",
    "amount > 100 and amount < 900",
    "amount > 100 and amount < 900 and weight > 10.5 and status = 'completed'",
    "not amount > 100",
    "amount in (1, 2, 3, 5, 8, 13, 21, 34)",
    "amount not in (1, 2, 3)",
    "amount > 100 or tags = 'gift'",
    "amount = 'text'",
    "weight < 50.5",
    "weight > 0.01",
    "due >= '2026-01-01' and due < '2026-07-01'",
    "due < '2026-07-01' and status = 'completed'",
    "due like '2026-0%'",
    "due like '2026-03-%' and region = 'eu'",
    "tags = 'gift'",
    "tags = 'gift' and status = 'completed'",
    "tags = 'gift' and tags = 'cold'",
    "tags in ('gift', 'sale') and region = 'eu'",
    "tags != 'gift'",
    "not tags like '%'",
    "tags > 'f'",
    "tags > 'f' and status = 'completed'",
    "tags like '%ift' and status = 'completed'",
    "scores > 500",
    "scores > 500 and amount < 500",
    "city = 'bern'",
    "city like '%'",
    "city != 'bern' and status = 'completed'",
    "missing = 1",
    "missing != 1 and status = 'completed'",
)
FILTERS = (*PLAIN, *BY_ATTRIBUTES)


class Made(NamedTuple):
    """All rows of one run that it is found by."""

    facts: Row
    state: Row
    found: Row
    attributes: list[Row]


def make(path: Path, amount: int) -> None:
    """A file of so many runs, one a second until now, as the store would have written it but for their turns."""

    async def open_once() -> None:
        store = SqliteStore(path, SystemClock(), threads=False)
        await store.open()
        await store.close()

    asyncio.run(open_once())
    with closing(apsw.Connection(str(path))) as connection:
        access = Access(connection)
        for pragma in ("synchronous = off", "cache_size = -400000"):
            access.write(f"pragma {pragma}")
        places = [sealed("attribute_places", (name, place)) for name, place in PLACES.items()]
        access.write_many(finding_sql.INSERT_PLACE, places)
        made = _runs(amount, SystemClock().now_us() - amount * SECOND_US)
        while chunk := [one for _, one in zip(range(CHUNK), made, strict=False)]:
            access.write("begin")
            access.write_many(sql.INSERT_RUN, [one.facts for one in chunk])
            access.write_many(sql.INSERT_STATE, [one.state for one in chunk])
            access.write_many(finding_sql.INSERT_FOUND, [one.found for one in chunk])
            access.write_many(finding_sql.INSERT_ATTRIBUTE, [row for one in chunk for row in one.attributes])
            access.write("commit")


def _runs(amount: int, begin_us: int) -> Iterator[Made]:
    drawn = random.Random(7)
    earlier = str(UUID(int=0))
    for number in range(1, amount + 1):
        created_us = begin_us + number * SECOND_US
        facts = _facts(drawn, number, earlier)
        if drawn.random() < 0.2:
            earlier = facts.run_id
        state = State(number, facts.queue, facts.workflow, facts.priority, attributes=facts.attributes)
        state.created_us = created_us
        (status,) = drawn.choices([*STATUSES], [*STATUSES.values()])
        state.status = cast("Any", status)
        if status != "running":
            state.closed_us = created_us + drawn.randrange(3600) * SECOND_US
            state.result = b'{"total":990}'
        elif drawn.random() < 0.05:
            state.blocked = to_json(Blocked(kind="nondeterminism", reason="x" * 300, since_us=created_us))
        yield Made(
            facts_row(number, facts, created_us),
            state_row(state),
            found.row_of(facts, state, PLACES),
            attributes.rows_of(number, facts.attributes, PLACES),
        )


def _facts(drawn: random.Random, number: int, earlier: str) -> NewRun:
    (workflow,) = drawn.choices([*TYPES], [*TYPES.values()])
    return NewRun(
        run_id=str(UUID(int=drawn.getrandbits(128), version=4)),
        workflow_id=f"order-{number:06}",
        workflow=workflow,
        seed=number,
        input=b'["order",1]',
        started=b'{"kind":"started"}',
        queue="default" if drawn.random() < 0.9 else "mail",
        priority=0 if drawn.random() < 0.95 else 5,
        parent=Parent(run_id=earlier, seq=1) if drawn.random() < 0.1 else None,
        generation=0 if drawn.random() < 0.96 else drawn.randrange(1, 6),
        attributes=to_json(_attributes(drawn)),
    )


def _attributes(drawn: random.Random) -> dict[str, Any]:
    given: dict[str, Any] = {
        "customer": f"c-{drawn.randrange(100_000)}",
        "region": drawn.choice(("eu", "eu", "us", "asia")),
        "vip": drawn.random() < 0.3,
        "amount": drawn.randrange(1000),
        "weight": round(drawn.random() * 100, 2),
        "due": f"2026-{drawn.randrange(1, 13):02}-{drawn.randrange(1, 29):02}",
    }
    if drawn.random() < 0.5:
        given["tags"] = drawn.sample(TAGS, drawn.randrange(1, 4))
    if drawn.random() < 0.1:
        given["scores"] = [drawn.randrange(1000), drawn.randrange(1000)]
    if drawn.random() < 0.05:
        given["city"] = drawn.choice(("bern", "rome", "oslo"))
    return given
