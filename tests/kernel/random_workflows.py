"""Random workflows: a plan is a tree of primitives as plain JSON, and `play` is the workflow that carries it out.

`tests.kernel.random_plans` draws plans, `tests.kernel.random_runs` answers what they ask for. A node is a list: the
name of an operation of `OPERATIONS`, and what it is given. What an operation draws or receives ends up in a command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import perdure
from perdure import activity, query, signal, update, workflow

Node = list[Any]
Operation = Callable[..., Coroutine[Any, Any, Any]]

OPERATIONS: dict[str, Operation] = {}
MESSAGES = ("a", "b", "c")


@activity
async def fetch(name: str, given: Any = None) -> Any: ...


@activity(cancellation="wait")
async def careful(name: str) -> Any: ...


@activity(cancellation="abandon")
async def careless(name: str) -> Any: ...


class Player:
    """What the operations of one run share."""

    def __init__(self) -> None:
        self.bumps = 0
        self.promises = 0
        self.begun: list[asyncio.Future[Any]] = []

    async def play(self, node: Node) -> Any:
        """Carry one node out; its result is plain JSON."""
        name, *given = node
        return await OPERATIONS[name](self, *given)

    async def mapping(self, node: Node) -> dict[str, Any]:
        """The same, as a mapping of one key."""
        return {str(node[0]): await self.play(node)}

    def plays(self, nodes: list[Node]) -> list[Coroutine[Any, Any, Any]]:
        """One coroutine for each node."""
        return [self.play(node) for node in nodes]


def operation(fn: Operation) -> Operation:
    """An operation of plans, by its name."""
    OPERATIONS[fn.__name__] = fn
    return fn


def shown(value: object) -> Any:
    """An outcome as JSON: an error as its type's name."""
    return f"{type(value).__name__} raised" if isinstance(value, BaseException) else value


@workflow
async def play(plan: Node) -> Any:
    return await Player().play(plan)


@workflow
class Served:
    """The same with class handlers, some of which carry out nodes of their own."""

    def __init__(self) -> None:
        self.player = Player()

    async def run(self, plan: Node, poked: Node) -> Any:
        self.poked = poked
        return await self.player.play(plan)

    @signal
    async def c(self, value: Any = None) -> None:
        self.player.bumps += 1
        await self.player.play(["attempt", self.poked])

    @update
    async def ask(self, value: Any = None) -> Any:
        self.player.bumps += 1
        return [value, await self.player.play(self.poked)]

    @ask.validator
    def check(self, value: Any = None) -> None:
        if value == 0:
            raise ValueError("nothing to ask")

    @query
    def bumps(self) -> int:
        return self.player.bumps


# --- one thing at a time ----------------------------------------------------------------------


@operation
async def act(player: Player, kind: str, name: str) -> Any:
    if kind == "options":
        return await fetch.options(timeout=5, priority=1)(name)
    return await {"try": fetch, "wait": careful, "abandon": careless}[kind](name)


@operation
async def begin(player: Player, name: str, cancelled: bool) -> Any:
    future = fetch(name)
    if cancelled:
        return future.cancel()
    player.begun.append(future)
    return None


@operation
async def collect(player: Player) -> Any:
    begun, player.begun = player.begun, []
    return [await future for future in begun]


@operation
async def timer(player: Player, seconds: float) -> Any:
    await perdure.sleep(seconds)


@operation
async def pause(player: Player, seconds: float) -> Any:
    await asyncio.sleep(seconds)


@operation
async def receive(player: Player, name: str, timeout: float | None, has_default: bool) -> Any:
    if timeout is not None and has_default:
        return await perdure.receive(name, timeout=timeout, default="nothing came")
    return await perdure.receive(name, timeout=timeout)


@operation
async def receive_any(player: Player, timeout: float | None) -> Any:
    name, value = await perdure.receive_any({"a": Any, "b": Any}, timeout=timeout)
    return [name, value, perdure.pending("a"), perdure.pending("b")]


@operation
async def promise(player: Player, timeout: float | None) -> Any:
    player.promises += 1
    return await perdure.promise(f"promise {player.promises}", timeout=timeout)


@operation
async def bump(player: Player) -> Any:
    player.bumps += 1
    return player.bumps


@operation
async def until(player: Player, bumps: int, timeout: float) -> Any:
    await perdure.wait_until(lambda: player.bumps >= bumps, timeout=timeout)
    return player.bumps


@operation
async def state(player: Player, key: str) -> Any:
    before = perdure.get_state(key, int, 0)
    perdure.set_state(key, before + 1)
    if before > 1:
        perdure.clear_state(key)
    perdure.publish({"key": key, "before": before})


@operation
async def effect(player: Player, name: str) -> Any:
    value = perdure.side_effect(name, lambda: [name, player.bumps])
    perdure.publish(value)


@operation
async def patch(player: Player, name: str) -> Any:
    perdure.publish([name, perdure.patched(name)])


@operation
async def draws(player: Player) -> Any:
    drawn = [perdure.random().randrange(10**6), str(perdure.uuid4()), perdure.now().isoformat(), perdure.info().turn]
    return await fetch("drawn", drawn)


@operation
async def start(player: Player, how: str) -> Any:
    started = perdure.child(play, ["bump"], parent_close="abandon")
    if how == "cancel":
        started.cancel()
    elif how == "signal":
        await started.signal("a", 1)
    elif how == "outside":
        return await perdure.run_of("another").cancel("enough")
    return await started


@operation
async def fault(player: Player, text: str) -> Any:
    raise ValueError(text)


@operation
async def phase(player: Player, stop_after: int, timeout: float) -> Any:
    def add(state: int, value: Any = None) -> Any:
        return perdure.Stop(state + 1, reply="last") if state + 1 >= stop_after else perdure.Continue(state + 1)

    async def slowly(state: int, value: Any = None) -> Any:
        return perdure.Continue(state + len(str(await fetch("slow", state))))

    def later(state: int, value: Any = None) -> Any:
        return perdure.Later(fetch_later(state), state)

    async def fetch_later(state: int) -> Any:
        return await fetch("later", state)

    end = await perdure.phase(0, signals={"a": add, "b": slowly}, updates={"ask": later, "add": add}, timeout=timeout)
    return [end.state, end.timed_out]


# --- several at a time ------------------------------------------------------------------------


@operation
async def seq(player: Player, nodes: list[Node]) -> Any:
    return [await player.play(node) for node in nodes]


@operation
async def attempt(player: Player, node: Node) -> Any:
    try:
        return await player.play(node)
    except Exception as error:
        return shown(error)


@operation
async def parallel(player: Player, join: str, nodes: list[Node]) -> Any:
    branches = player.plays(nodes)
    if join == "settled":
        ends = await perdure.parallel(*branches, join="settled")
        return [shown(end.error) if end.error is not None else end.value for end in ends]
    if join == "first":
        return await perdure.parallel(*branches, join="first")
    if join == "two":
        return await perdure.parallel(*branches, join=perdure.first(min(2, len(branches))))
    if join == "of":
        return await perdure.parallel(*branches, join=perdure.n_of_m(1, len(branches)))
    if join == "merge":
        for branch in branches:
            branch.close()
        return await perdure.parallel(*[player.mapping(node) for node in nodes], join=perdure.merge())
    return await perdure.parallel(*branches)


@operation
async def race(player: Player, nodes: list[Node]) -> Any:
    return list(await perdure.race(*player.plays(nodes), perdure.receive("c")))


@operation
async def each(player: Player, limit: int, nodes: list[Node], asynchronous: bool) -> Any:
    async def source() -> AsyncIterator[Node]:
        for node in nodes:
            await asyncio.sleep(0)
            yield node

    return [result async for result in perdure.each(source() if asynchronous else nodes, player.play, limit)]


@operation
async def choose(player: Player, nodes: list[Node]) -> Any:
    return await perdure.choose(*player.plays(nodes))


@operation
async def tasks(player: Player, nodes: list[Node], cancelled: bool) -> Any:
    made = [asyncio.create_task(coroutine) for coroutine in player.plays(nodes)]
    await asyncio.sleep(0)
    if cancelled:
        made[0].cancel()
    return [shown(end) for end in await asyncio.gather(*made, return_exceptions=True)]


@operation
async def gather(player: Player, nodes: list[Node]) -> Any:
    return list(await asyncio.gather(*player.plays(nodes)))


@operation
async def group(player: Player, nodes: list[Node]) -> Any:
    async with asyncio.TaskGroup() as together:
        made = [together.create_task(coroutine) for coroutine in player.plays(nodes)]
    return [task.result() for task in made]


@operation
async def wait(player: Player, nodes: list[Node]) -> Any:
    made = [asyncio.create_task(coroutine) for coroutine in player.plays(nodes)]
    done, left = await asyncio.wait(made, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return [shown(task.exception() or task.result()) for task in done]


@operation
async def as_completed(player: Player, nodes: list[Node]) -> Any:
    return [await result for result in asyncio.as_completed(player.plays(nodes))]


@operation
async def timed(player: Player, how: str, seconds: float, node: Node) -> Any:
    if how == "wait_for":
        return await asyncio.wait_for(player.play(node), seconds)
    if how == "timeout":
        async with asyncio.timeout(seconds):
            return await player.play(node)
    async with perdure.scope(timeout=seconds):
        return await player.play(node)


@operation
async def region(player: Player, node: Node, cancelled_after: Node) -> Any:
    async def breaker() -> None:
        await player.play(cancelled_after)
        area.cancel("enough")

    async with perdure.scope() as area:
        stops = asyncio.create_task(breaker())
        result = await player.play(node)
        stops.cancel()
        return result
    return "cancelled"


@operation
async def shield(player: Player, node: Node) -> Any:
    return await asyncio.shield(player.play(node))


@operation
async def cleaned(player: Player, node: Node, cleanup: Node) -> Any:
    try:
        return await player.play(node)
    finally:
        async with perdure.shielded():
            await player.play(cleanup)


@operation
async def turns(player: Player, how: str, nodes: list[Node]) -> Any:
    gate: Any = {"lock": asyncio.Lock, "semaphore": lambda: asyncio.Semaphore(2)}[how]()

    async def within(node: Node) -> Any:
        async with gate:
            return await player.play(node)

    return list(await asyncio.gather(*[within(node) for node in nodes]))


@operation
async def handed(player: Player, how: str, node: Node, then: Node) -> Any:
    """One strand waits, on an event, a queue or a condition, for what the other has done."""
    event, queue, condition = asyncio.Event(), asyncio.Queue[Any](1), asyncio.Condition()
    ready = False

    async def first() -> Any:
        nonlocal ready
        try:
            await player.play(node)
        finally:
            ready = True
            event.set()
            queue.put_nowait("ready")
        async with condition:
            condition.notify_all()

    async def second() -> Any:
        if how == "event":
            await event.wait()
        elif how == "queue":
            await queue.get()
        else:
            async with condition:
                await condition.wait_for(lambda: ready)
        return await player.play(then)

    return list(await asyncio.gather(second(), first()))
