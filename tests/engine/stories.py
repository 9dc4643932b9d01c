"""Stories: each drives workflows of tests.engine.corpus from outside, and can be told again from its beginning.

tests/engine/test_boundaries.py crashes every commit of every story once. What a story does is safe to repeat: runs have
ids, signals message ids, updates ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from perdure import RunEnded
from tests.engine.corpus import (
    LOG,
    Cart,
    bad_family,
    calling,
    cancelled_kid,
    chain,
    collecting,
    compensated,
    drawn,
    either,
    family,
    fan,
    first_of,
    generations,
    leaving,
    limited,
    mixed,
    napping,
    nested,
    patching,
    paying,
    phased,
    promised,
    racing,
    reminded,
    reviewed,
    rolling,
    scoped,
    stateful,
    tidy,
    told_kid,
    unsure,
    windowed,
)

Story = Callable[[Any], Awaitable[Any]]
STORIES: dict[str, Story] = {}


def story(tell: Story) -> Story:
    STORIES[tell.__name__] = tell
    return tell


def plain(name: str, flow: Any, *args: Any) -> None:
    async def tell(engine: Any) -> Any:
        return await ending(await engine.start(flow, *args, id=name))

    STORIES[name] = tell


async def ending(handle: Any) -> Any:
    """Its value, or how it ended."""
    try:
        return await handle.result()
    except RunEnded as error:
        return [type(error).__name__, error.failure.type]


plain("chain", chain, 4)
plain("fan", fan, 5)
plain("mixed", mixed)
plain("compensated", compensated)
plain("napping", napping, 3)
plain("racing", racing)
plain("first_of", first_of)
plain("windowed", windowed, 5)
plain("drawn", drawn)
plain("patching", patching)
plain("scoped", scoped)
plain("stateful", stateful, 3)
plain("reminded", reminded)
plain("family", family, 3)
plain("bad_family", bad_family)
plain("told_kid", told_kid)
plain("nested", nested, 2)
plain("paying", paying)
plain("generations", generations, 3, 0)


@story
async def signalled(engine: Any) -> Any:
    handle = await engine.start(collecting, 3, id="signalled")
    for number in range(3):
        await handle.signal("item", number, message_id=f"m-{number}")
    return await ending(handle)


@story
async def signalled_with_start(engine: Any) -> Any:
    handle = await engine.signal_with_start(
        collecting, 1, id="sws", id_policy="use_existing", signal="item", signal_args=[1], message_id="m-1"
    )
    return await ending(handle)


@story
async def either_of_two(engine: Any) -> Any:
    handle = await engine.start(either, id="either")
    await handle.signal("right", "r", message_id="m-1")
    return await ending(handle)


@story
async def cancelled(engine: Any) -> Any:
    handle = await engine.start(tidy, id="tidy")
    await asyncio.sleep(1)
    if (await handle.describe()).status == "running":
        await handle.cancel("enough")
    return await ending(handle)


@story
async def completed_from_outside(engine: Any) -> Any:
    handle = await engine.start(reviewed, id="reviewed")
    while not (keys := [key for key, _, what in LOG if what == "given out 1"]):
        await asyncio.sleep(1)
    await engine.complete_activity(f"{handle.run_id}.{keys[0]}", 1)
    return await ending(handle)


@story
async def decided_by_a_person(engine: Any) -> Any:
    handle = await engine.start(unsure, id="blind")
    while (seen := await handle.describe()).status == "running":
        for one in seen.activities:
            if one.waits_for == "a person":
                await handle.resolve_activity(one.key, "happened", 7)
        await asyncio.sleep(1)
    return await ending(handle)


@story
async def terminated(engine: Any) -> Any:
    handle = await engine.start(limited, id="limited")
    await asyncio.sleep(1)
    if (await handle.describe()).status == "running":
        await handle.terminate("enough")
    return await ending(handle)


@story
async def timed_out(engine: Any) -> Any:
    return await ending(await engine.start(limited, id="timed out", timeout=60))


@story
async def updated(engine: Any) -> Any:
    handle = await engine.start(Cart, id="cart")
    answers = [await handle.update("add", item, id=f"u-{item}") for item in ("tea", "milk")]
    await handle.signal("close", message_id="m-close")
    return [answers, await ending(handle)]


@story
async def phases(engine: Any) -> Any:
    handle = await engine.start(phased, id="phased")
    for amount in (1, 2, 3):
        await handle.signal("put", amount, message_id=f"m-{amount}")
    return await ending(handle)


@story
async def promises(engine: Any) -> Any:
    handle = await engine.start(promised, id="promised")
    await engine.resolve_promise("key of promised", "yes")
    return await ending(handle)


@story
async def rejections(engine: Any) -> Any:
    handle = await engine.start(promised, id="rejected")
    await engine.reject_promise("key of rejected", "no")
    return await ending(handle)


@story
async def a_cancelled_child(engine: Any) -> Any:
    handle = await engine.start(cancelled_kid, id="ck")
    return [await ending(handle), await ending(engine.handle("ck/kid"))]


@story
async def a_terminated_child(engine: Any) -> Any:
    handle = await engine.start(leaving, "terminate", id="lt")
    return [await ending(handle), await ending(engine.handle("lt/kid"))]


@story
async def an_abandoned_child(engine: Any) -> Any:
    handle = await engine.start(leaving, "abandon", id="la")
    value = await ending(handle)
    await engine.handle("la/kid").signal("go", "alone", message_id="m-go")
    return [value, await ending(engine.handle("la/kid"))]


@story
async def a_call(engine: Any) -> Any:
    listener = await engine.start(collecting, 1, id="listener")
    caller = await engine.start(calling, "listener", id="caller")
    return [await ending(caller), await ending(listener)]


@story
async def rolled(engine: Any) -> Any:
    handle = await engine.start(rolling, [], 4, id="rolling")
    for number in range(4):
        await handle.signal("item", number, message_id=f"m-{number}")
    return await ending(handle)
