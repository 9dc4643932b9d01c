"""Events: published once by id, peeked at, skipped (L1)."""

from __future__ import annotations

from perdure.errors import UsageError
from perdure.stores.event_records import TurnEvent
from perdure.testing.conformance.expecting import raises, refused, same
from perdure.testing.conformance.making import a_commit, a_start
from perdure.testing.conformance.piping import IDS, World, event
from perdure.testing.conformance.stage import Stores


async def an_event_is_known_by_its_topic_and_id_and_a_second_one_replaces_the_payload(stores: Stores) -> None:
    """L1: payload and causes are replaced, the status is kept."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    new = [event("a", b"2", causes=("rows/1",)), event("b", b"3"), event("a", topic="rows")]
    same(await world.store.publish_events("mail", new), [False, False, True])
    first, second, _ = await world.store.list_events("mail", "inbox", 100)
    same((first.status, first.facts.payload, first.facts.causes), ("reserved", b"2", ("rows/1",)))
    same((second.status, second.facts.payload), ("pending", b"3"))
    await world.check()


async def an_id_means_another_event_in_another_topic(stores: Stores) -> None:
    """L1: (pipeline, topic, message id) is unique; what becomes of one does not touch the other."""
    world = await World.of(stores)
    same(await world.store.publish_events("mail", [event("a", b"7", topic="rows")]), [True])
    await world.begin()
    await world.prepare("a")
    await world.commit()
    same(
        (await world.statuses(), await world.statuses("rows")),
        (["consumed 1", "pending 1", "pending 1"], ["pending 1"]),
    )
    (row,) = await world.store.list_events("mail", "rows", 100)
    same((row.facts.message_id, row.facts.payload), ("a", b"7"))
    await world.check()


async def peek_gives_pending_events_oldest_first(stores: Stores) -> None:
    """L4: those that are reserved or done are not among them."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("c", "b")
    same([one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 100)], ["a"])
    await world.fail("paused:transient", "prepared", release=True)
    await world.store.publish_events("mail", [event("d")])
    same([one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 3)], ["a", "b", "c"])
    same([one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 9)], ["a", "b", "c", "d"])
    same(await world.store.count_events("mail"), {"inbox": {"pending": 4}})
    await world.check()


async def only_a_pending_event_can_be_skipped(stores: Stores) -> None:
    """L1: nothing else can."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    same((await world.store.skip_event("mail", "inbox", "b")).status, "skipped")
    for id in ("a", "b"):
        await raises(UsageError, world.store.skip_event("mail", "inbox", id))
    await world.check()


async def events_that_come_and_go_leave_the_others_in_order(stores: Stores) -> None:
    """The queue of what waits forgets what is gone, wherever that stood."""
    world = await World.of(stores)
    ids = [f"{number:04}" for number in range(200)]
    await world.store.publish_events("mail", [event(id) for id in ids])
    for id in (*IDS, *ids[1:198]):
        await world.store.skip_event("mail", "inbox", id)
    left = [ids[0], *ids[198:]]
    same([one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 100)], left)
    await world.check()


async def events_are_listed_page_by_page_whatever_became_of_them(stores: Stores) -> None:
    """The oldest first, from those with a larger number; another store object sees the same."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("b")
    first = await world.store.list_events("mail", "inbox", 2)
    same([one.facts.message_id for one in first], ["a", "b"])
    other = await stores.open()
    rest = await other.list_events("mail", "inbox", 2, first[-1].number)
    same([(one.facts.message_id, one.status) for one in rest], [("c", "pending")])
    same(await other.list_events("mail", "inbox", 2, rest[-1].number), [])
    await world.check()


async def what_a_turn_of_a_workflow_publishes_is_written_with_it(stores: Stores) -> None:
    """E1, L1: by the name of its pipeline and topic, or by the topic alone; or the turn is refused, and all of it."""
    world = await World.of(stores)
    run = (await world.store.start_run(a_start("o-1", claim=world.owner))).run
    gone = TurnEvent(pipeline=None, event=event("x", topic="gone"), by="run")
    (answer,) = await world.store.commit_turns([a_commit(run, world.owner, events=(gone,))])
    refused(answer, UsageError)
    same((await world.store.get_run("o-1")).last_turn, run.last_turn)
    told = (
        TurnEvent(pipeline="mail", event=event("d"), by="run"),
        TurnEvent(pipeline=None, event=event("r", topic="rows"), by="run"),
    )
    (answer,) = await world.store.commit_turns([a_commit(run, world.owner, events=told)])
    same(isinstance(answer, Exception), False)
    for topic, id in (("inbox", "d"), ("rows", "r")):
        last = (await world.store.list_events("mail", topic, 10))[-1]
        same((last.facts.message_id, last.status, last.published_by), (id, "pending", "run"))
    await world.check()
