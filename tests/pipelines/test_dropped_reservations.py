"""What was skipped since it was peeked stands in no record of what was prepared, whatever the store (L4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from perdure.stores.memory import MemoryStore
from perdure.stores.pipeline_records import NewEvent, NewHandler, NewPipeline, Preparation, Reservation, RunBeginning
from perdure.stores.sqlite import SqliteStore
from perdure.testing.clock import VirtualClock

MAIL = NewPipeline(
    name="mail", digest="1", topics=("inbox",), handlers=(NewHandler(name="W", kind="consumer", topics=("inbox",)),)
)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize(("skipped", "left"), [("a", {"inbox": ["b"]}), ("ab", {})])
def test_what_was_skipped_is_dropped_from_what_was_prepared(
    tmp_path: Path, kind: str, skipped: str, left: object
) -> None:
    """L4: so that whoever takes the run over reserves, and names as causes, what it really has."""

    async def story() -> None:
        clock = VirtualClock()
        store = MemoryStore(clock) if kind == "memory" else SqliteStore(str(tmp_path / "mail.db"), clock)
        await store.open()
        owner = (await store.open_lease("w", {}, 10)).number
        await store.deploy_pipeline(MAIL)
        await store.claim_pipeline(owner, "mail")
        await store.publish_events("mail", [NewEvent(topic="inbox", message_id=id, payload=b"1") for id in "ab"])
        await store.begin_run(owner, "mail", RunBeginning(run="r1", handler="W", key="k"))
        for id in skipped:
            await store.skip_event("mail", "inbox", id)
        prepared = b'{"reserve":{"inbox":["a","b"]},"data":[1,"x"]}'
        peeked = {"inbox": frozenset("ab")}
        reserve = {"inbox": ("a", "b")}
        preparation = Preparation(run="r1", prepared=prepared, reserve=reserve, peeked=peeked)
        given = await store.save_prepared(owner, "mail", preparation)
        assert given == Reservation(2 - len(skipped), tuple(("inbox", id) for id in skipped))
        run = await store.get_handler_run("r1")
        assert msgspec.json.decode(run.prepared or b"") == {"reserve": left, "data": [1, "x"]}
        await store.close()

    asyncio.run(story())
