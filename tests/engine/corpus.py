"""A corpus of workflows, one for each way of waiting, forking, telling and ending; tests.engine.stories drives them.

tests/engine/test_boundaries.py crashes every commit of every story once; the crash driver draws from them too.
What a story does is safe to repeat: runs have ids, signals message ids, updates ids. Activities log what they did.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from perdure import (
    ActivityFailed,
    ApplicationError,
    ChildFailed,
    Continue,
    ExternalFailed,
    PromiseRejected,
    Retry,
    Stop,
    activity,
    attributes,
    child,
    choose,
    complete_later,
    continue_as_new,
    each,
    first,
    get_state,
    info,
    now,
    parallel,
    patched,
    phase,
    promise,
    publish,
    race,
    random,
    receive,
    receive_any,
    run_of,
    scope,
    set_state,
    shielded,
    side_effect,
    signal,
    sleep,
    transient,
    update,
    uuid4,
    wait_until,
    workflow,
)
from perdure.define.performing import activity_info

LOG: list[tuple[str, str, str]] = []  # key, workflow id, what was done
FAILED: dict[str, int] = {}


def _log(what: str) -> None:
    LOG.append((activity_info().key, activity_info().workflow_id, what))


@activity
async def work(step: Any) -> Any:
    _log(f"work {step}")
    return step


@activity
def work_in_thread(step: int) -> int:
    _log(f"thread {step}")
    return step * 2


@activity
async def slow(step: int) -> int:
    await asyncio.sleep(30)
    _log(f"slow {step}")
    return step


@activity(retry=Retry(attempts=4, initial=1, jitter=0))
async def flaky(step: int) -> int:
    """Fails twice by its key, whatever process it runs in."""
    _log(f"flaky {step}")
    key = activity_info().key
    FAILED[key] = FAILED.get(key, 0) + 1
    if FAILED[key] < 3:
        raise ConnectionError("not yet")
    return step


@activity(retry=Retry(attempts=1))
async def hopeless(step: int) -> int:
    _log(f"hopeless {step}")
    raise ApplicationError("no way", type="Hopeless")


@activity
async def given_out(step: int) -> int:
    _log(f"given out {step}")
    complete_later()


@activity(effect="ask")
async def pay(step: int) -> int:
    times = FAILED[activity_info().key] = FAILED.get(activity_info().key, 0) + 1
    _log(f"paid {step}, {times} times")
    raise ConnectionError("no reply")


@pay.reconcile
async def was_paid(step: int) -> int:
    if activity_info().key not in FAILED:
        raise transient("never paid")
    return step


@activity(effect="ask")
async def pay_blindly(step: int) -> int:
    raise ConnectionError("no reply")


# --- the workflows -------------------------------------------------------------------------------


@workflow
async def chain(length: int) -> int:
    total = 0
    for step in range(length):
        total += await work(step)
    return total


@workflow
async def fan(width: int) -> list[int]:
    return await parallel(*(work(step) for step in range(width)))


@workflow
async def mixed() -> list[int]:
    one = work_in_thread(1)
    two = slow(2)
    return [await two, await one, await flaky(3)]


@workflow
async def compensated() -> str:
    done: list[int] = []
    try:
        done.append(await work(1))
        done.append(await work(2))
        await hopeless(3)
    except ActivityFailed as error:
        for step in reversed(done):
            await work(-step)
        return f"undone after {error.failure.type}"
    return "done"


@workflow
async def napping(times: int) -> list[bool]:
    began = now()
    taken: list[bool] = []
    for _ in range(times):
        await sleep(10)
        taken.append((now() - began).total_seconds() >= 10)
    return taken


@workflow
async def collecting(count: int) -> list[Any]:
    return [await receive("item", int) for _ in range(count)]


@workflow
async def reminded() -> str:
    answer = await receive("answer", str, timeout=60, default="nobody answered")
    return str(await work(answer))


@workflow
async def either() -> list[Any]:
    name, value = await receive_any({"left": int, "right": str}, timeout=600)
    return [name, value, await work(value)]


@workflow
async def racing() -> list[Any]:
    index, value = await race(slow(1), sleep(5), receive("never", int))
    return [index, value]


@workflow
async def first_of() -> int:
    (value,) = await parallel(slow(1), work(2), join=first(1))
    return value


@workflow
async def windowed(count: int) -> list[int]:
    return [value async for value in each(range(count), work, limit=3)]


@workflow
async def drawn() -> list[Any]:
    value = side_effect("draw", lambda: 7)
    same = [str(uuid4()) == str(uuid4()), random().random() < 1]
    return [value, same, await choose(work(1), work(2))]


@workflow
async def patching() -> int:
    return await (work(1) if patched("new-way") else work(2))


@workflow
async def scoped() -> str:
    async with scope() as region:
        future = slow(1)
        await work(1)
        region.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await future
    return str(await work(2))


@workflow
async def tidy() -> str:
    try:
        await sleep(10_000)
    finally:
        async with shielded():
            await work("tidied")
    return "never"


@workflow
async def stateful(steps: int) -> Any:
    for step in range(steps):
        set_state("step", step)
        publish(step)
        attributes(step=step)
        await work(step)
    return get_state("step", int)


@workflow
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.closed = False

    async def run(self) -> list[str]:
        await wait_until(lambda: self.closed)
        return self.items

    @signal
    async def close(self) -> None:
        await work("close")
        self.closed = True

    @update
    async def add(self, item: str) -> int:
        self.items.append(str(await work(item)))
        return len(self.items)

    @add.validator
    def check(self, item: str) -> None:
        if not item:
            raise ValueError("empty")


@workflow
async def phased() -> list[Any]:
    def put(state: int, amount: int) -> Any:
        return Stop(state + amount) if state + amount >= 6 else Continue(state + amount)

    end = await phase(0, signals={"put": put}, timeout=600)
    return [end.state, end.timed_out, await work(end.state)]


@workflow
async def promised() -> str:
    try:
        return str(await work(await promise("answer", str, timeout=600, key=f"key of {info().workflow_id}")))
    except PromiseRejected as error:
        return f"rejected {error.failure.message}"


@workflow
async def reviewed() -> list[int]:
    return await parallel(given_out(1), work(2))


@workflow
async def paying() -> list[int]:
    return [await pay(1), await pay(2)]


@workflow
async def unsure() -> int:
    return await pay_blindly(1)


@workflow
async def kid(number: int) -> int:
    return int(await work(number)) * 2


@workflow
async def bad_kid(number: int) -> int:
    raise ValueError(f"bad {number}")


@workflow
async def waiting_kid() -> str:
    return await receive("go", str)


@workflow
async def family(count: int) -> int:
    return sum(await parallel(*(kid(number) for number in range(count))))


@workflow
async def bad_family() -> str:
    try:
        await bad_kid(1)
    except ChildFailed as error:
        return error.failure.message
    return "good"


@workflow
async def told_kid() -> str:
    one = child(waiting_kid, id=f"{info().workflow_id}/kid")
    await one.signal("go", "went")
    return await one


@workflow
async def cancelled_kid() -> str:
    one = child(waiting_kid, id=f"{info().workflow_id}/kid", parent_close="abandon")
    await work(1)
    one.cancel()
    return str(await work(2))


@workflow
async def leaving(policy: str) -> int:
    child(waiting_kid, id=f"{info().workflow_id}/kid", parent_close=policy)  # type: ignore[arg-type]
    return int(await work(1))


@workflow
async def nested(depth: int) -> int:
    return 1 if depth == 0 else sum(await parallel(nested(depth - 1), nested(depth - 1)))


@workflow
async def calling(other: str) -> str:
    await run_of(other).signal("item", 5)
    try:
        await run_of("nobody").signal("item", 5)
    except ExternalFailed as error:
        return error.failure.type
    return "somebody"


@workflow
async def generations(left: int, total: int) -> int:
    total += int(await work(left))
    set_state("total", total)
    if left:
        return continue_as_new(left - 1, total)
    return total


@workflow
async def rolling(seen: list[int], upto: int) -> list[int]:
    seen = [*seen, await receive("item", int)]
    if len(seen) < upto:
        return continue_as_new(seen, upto)
    return seen


@workflow
async def limited() -> None:
    await sleep(10_000)


WORKFLOWS = [
    *(chain, fan, mixed, compensated, napping, collecting, reminded, either, racing, first_of, windowed, drawn),
    *(patching, scoped, tidy, stateful, Cart, phased, promised, kid, bad_kid, waiting_kid, family, bad_family),
    *(told_kid, cancelled_kid, leaving, nested, calling, generations, rolling, limited, reviewed, paying, unsure),
]
ACTIVITIES = [work, work_in_thread, slow, flaky, hopeless, given_out, pay, pay_blindly]
