"""How stores keep events: published, peeked at, skipped (L1)."""

from __future__ import annotations

import pytest

from perdure.errors import UsageError
from tests.pipelines.store_world import IDS, World, event, told


@told
async def test_an_event_is_known_by_its_topic_and_id_and_a_second_one_replaces_the_payload(world: World) -> None:
    """L1: payload and causes are replaced, the status is kept."""
    await world.begin()
    await world.prepare("a")
    new = [event("a", b"2", causes=("rows/1",)), event("b", b"3"), event("a", topic="rows")]
    assert await world.store.publish_events("mail", new) == [False, False, True]
    first, second, _ = await world.store.list_events("mail", "inbox", 100)
    assert (first.status, first.facts.payload, first.facts.causes) == ("reserved", b"2", ("rows/1",))
    assert (second.status, second.facts.payload) == ("pending", b"3")


@told
async def test_peek_gives_pending_events_oldest_first(world: World) -> None:
    await world.begin()
    await world.prepare("c", "b")
    assert [one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 100)] == ["a"]
    await world.fail("paused:transient", "prepared", release=True)
    await world.store.publish_events("mail", [event("d")])
    assert [one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 3)] == ["a", "b", "c"]
    assert [one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 9)] == ["a", "b", "c", "d"]
    assert await world.store.count_events("mail") == {"inbox": {"pending": 4}}


@told
async def test_only_a_pending_event_can_be_skipped(world: World) -> None:
    await world.begin()
    await world.prepare("a")
    assert (await world.store.skip_event("mail", "inbox", "b")).status == "skipped"
    for id in ("a", "b"):
        with pytest.raises(UsageError, match=id):
            await world.store.skip_event("mail", "inbox", id)


@told
async def test_events_that_come_and_go_leave_the_others_in_order(world: World) -> None:
    """The queue of what waits forgets what is gone, wherever that stood."""
    ids = [f"{number:04}" for number in range(200)]
    await world.store.publish_events("mail", [event(id) for id in ids])
    for id in (*IDS, *ids[1:198]):
        await world.store.skip_event("mail", "inbox", id)
    left = [ids[0], *ids[198:]]
    assert [one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 100)] == left
