"""Engine, Client, Worker: what a program opens; they put the engine's parts together, and decide nothing.

Time, randomness, threads and the store are arguments, so that a whole engine runs on virtual time in one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack, cast

from msgspec.structs import replace

from perdure.clock import Clock, SystemClock
from perdure.codec import shown
from perdure.define.registry import Registry
from perdure.define.retry import Duration
from perdure.engine.client import RunClient
from perdure.engine.leases import Keeper, LoopKeeper, ThreadKeeper
from perdure.engine.parts import Listener, Site
from perdure.engine.places import Hold, Inline, InThreads, OnLoop
from perdure.engine.processes import InProcesses
from perdure.engine.settings import Settings, read_cache, read_lease, read_queues, read_turn_limit
from perdure.engine.turns import Prepared
from perdure.engine.worker import Worker as RunWorker
from perdure.errors import InvalidValue, UsageError
from perdure.model.ids import check_id
from perdure.pipelines.client import Pipelines
from perdure.pipelines.declare import Pipeline
from perdure.pipelines.host import Host
from perdure.pipelines.means import Means
from perdure.pipelines.policy import PipelinePolicy
from perdure.stores.port import Store
from perdure.stores.records import Closing, Start
from perdure.stores.urls import store_of


class Surroundings(TypedDict, total=False):
    """What the engine takes from the world, for those who bring their own: tests, simulations."""

    clock: Clock
    rng: random.Random
    threads: bool
    hold: Hold


class ClientOptions(Surroundings, total=False):
    """How a client works."""

    settings: Settings


class WorkerOptions(ClientOptions, total=False):
    """How a worker works."""

    queues: Mapping[str, int] | Iterable[str]
    lease: Duration
    cache: int
    turn_limit: float | None
    name: str
    listener: Listener
    pipelines: Iterable[Pipeline]
    pipeline_policy: PipelinePolicy


FITTING: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "clock": (lambda given: given is None or hasattr(given, "now_us"), "a clock, as perdure.clock has them"),
    "rng": (lambda given: given is None or isinstance(given, random.Random), "a random.Random"),
    "threads": (lambda given: isinstance(given, bool), "True or False"),
    "hold": (lambda given: given is None or callable(given), "what holds a clock, as VirtualClock.hold does"),
    "listener": (lambda given: hasattr(given, "turn_committed"), "a Listener"),
    "settings": (lambda given: isinstance(given, Settings), "a Settings(…)"),
    "pipelines": (lambda given: isinstance(given, Iterable) and not isinstance(given, str), "a list of pipelines"),
    "pipeline_policy": (lambda given: isinstance(given, PipelinePolicy), "a PipelinePolicy(…)"),
}


class Client(RunClient):
    """Runs of a store, from the outside: starts, signals and asks them, and runs none itself.

    With `workflows`, results are read as the types that these declare; with `activities`, what the outside says that
    they came to is held to theirs.
    """

    def __init__(
        self,
        url: str | Store,
        *,
        workflows: Iterable[object] = (),
        activities: Iterable[object] = (),
        **options: Unpack[ClientOptions],
    ) -> None:
        _check_options(options, ClientOptions, "Client")
        self._open_as(url, Registry(workflows, activities), options)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the store. `StoreUnavailable` with the reason and the remedy where that cannot be."""
        if self._was_opened:
            raise UsageError(f"{type(self).__name__} on {self.store.url} was opened before: make a new one")
        self._was_opened = True
        await self.store.open()
        self._unsubscribe = self.store.on_change(self._runs.news.others_closed)

    @property
    def pipelines(self) -> Pipelines:
        """The pipelines of the store."""
        return self._pipelines

    async def close(self) -> None:
        """Close the store. Runs go on wherever there is a worker."""
        if not self._was_opened or self._was_closed:
            return
        self._was_closed = True
        if self._unsubscribe is not None:
            self._unsubscribe()
        await self._runs.news.stop()
        await self.store.close()

    def _open_as(
        self, url: str | Store, registry: Registry, options: ClientOptions, policy: PipelinePolicy | None = None
    ) -> None:
        settings = options.get("settings", Settings())
        clock = options.get("clock") or SystemClock()
        self._threads = options.get("threads", True)
        store = cast("Store", url) if hasattr(url, "commit_turns") else store_of(url, clock, threads=self._threads)
        self._was_opened = self._was_closed = False
        self._unsubscribe = None
        rng = options.get("rng") or random.Random()
        super().__init__(store, registry, clock=clock, rng=rng, payload_bytes_max=settings.payload_bytes_max)
        self._host: Host | None = None
        self._pipelines = Pipelines(store, clock, policy or PipelinePolicy(), self._new_id, lambda: self._host)

    def _new_id(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))


class Engine(Client):
    """Client and worker in one process: `async with Engine("sqlite:///shop.db", workflows=[…], activities=[…])`."""

    def __init__(
        self,
        url: str | Store,
        *,
        workflows: Iterable[object] = (),
        activities: Iterable[object] = (),
        **options: Unpack[WorkerOptions],
    ) -> None:
        _check_options(options, WorkerOptions, type(self).__name__)
        settings = _settings(options)
        policy = options.get("pipeline_policy", PipelinePolicy())
        self._open_as(url, Registry(workflows, activities), options, policy)
        self._hold = options.get("hold")
        keeper: Keeper = (
            ThreadKeeper(self.store, settings, self._clock)
            if self._threads
            else LoopKeeper(self.store, settings, self._clock)
        )
        site = Site(
            store=self.store,
            registry=self._registry,
            settings=settings,
            clock=self._clock,
            rng=self._rng,
            name=check_id(options.get("name", f"{socket.gethostname()}:{os.getpid()}"), "the name of a worker"),
        )
        listener = _Both(self._runs.news, options["listener"]) if "listener" in options else self._runs.news
        listener = _Both(listener, _Published(lambda: self._host))
        self._worker: RunWorker = RunWorker(site, _places(self._threads, self._hold), keeper, listener)
        self._runs.worker = self._worker
        self._drain_seconds = settings.drain_seconds
        self._host = Host(self._means(policy), self.store, options.get("pipelines", ()))

    async def open(self) -> None:
        """Open the store, and begin to work."""
        await super().open()
        try:
            await self._worker.start()
            assert self._host is not None
            await self._host.start()
            self._worker.pump.on_change.append(self._host.look_around)
            self._host.look_around()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is under way, hand the rest over, close the store."""
        if self._worker.lease is not None and not self._worker.stopping:
            assert self._host is not None
            await self._host.stop(self._drain_seconds)
            await self._worker.stop()
        await super().close()

    def _means(self, policy: PipelinePolicy) -> Means:
        worker = self._worker

        def to_start(workflow: Any, args: tuple[Any, ...], id: str | None) -> Start:
            return self._to_start(workflow, args, {} if id is None else {"id": id})

        return Means(
            store=self.store,
            clock=self._clock,
            policy=policy,
            new_id=self._new_id,
            to_start=to_start,
            owner=lambda: None if worker.lease is None else worker.lease.number,
            lease_doubted=worker.pump.check_lease,
            runs_started=lambda: worker.pump.expect(self._clock.now_us()),
            threads=self._threads,
        )


class Worker:
    """A worker on its own: `await worker.run()` works until SIGTERM or SIGINT, then drains and hands over."""

    def __init__(
        self,
        url: str | Store,
        *,
        workflows: Iterable[object] = (),
        activities: Iterable[object] = (),
        **options: Unpack[WorkerOptions],
    ) -> None:
        _check_options(options, WorkerOptions, "Worker")
        self._engine = Engine(url, workflows=workflows, activities=activities, **options)
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Work until SIGTERM, SIGINT or `stop()`."""
        async with self._engine:
            with _signals_handled(self.stop):
                await self._stop.wait()

    def stop(self) -> None:
        """Have `run` come to its end."""
        self._stop.set()


class _Both(Listener):
    """Tells two listeners what a worker does."""

    def __init__(self, first: Listener, second: Listener) -> None:
        self._first = first
        self._second = second

    def turn_committed(self, prepared: Prepared) -> None:
        self._first.turn_committed(prepared)
        self._second.turn_committed(prepared)

    def run_closed(self, number: int, closing: Closing) -> None:
        self._first.run_closed(number, closing)
        self._second.run_closed(number, closing)

    def others_closed(self) -> None:
        self._first.others_closed()
        self._second.others_closed()


class _Published(Listener):
    """Tells the pipelines of this process what its workflows publish to them."""

    def __init__(self, host: Callable[[], Host | None]) -> None:
        self._host = host

    def turn_committed(self, prepared: Prepared) -> None:
        host = self._host()
        if host is not None:
            for one in prepared.commit.events:
                host.published_to(one.event.topic)


def _settings(options: WorkerOptions) -> Settings:
    settings = options.get("settings", Settings())
    if "queues" in options:
        settings = replace(settings, queues=read_queues(options["queues"]))
    if "lease" in options:
        settings = replace(settings, lease_seconds=read_lease(options["lease"]))
    if "cache" in options:
        settings = replace(settings, cache=read_cache(options["cache"]))
    if "turn_limit" in options:
        settings = replace(settings, turn_limit_seconds=read_turn_limit(options["turn_limit"]))
    if not options.get("threads", True):
        settings = replace(settings, turn_limit_seconds=None)
    return settings


def _places(threads: bool, hold: Hold | None) -> dict[str, OnLoop | InThreads | InProcesses | Inline]:
    if not threads:
        inline = Inline()
        return {"loop": OnLoop(), "thread": inline, "process": inline}
    return {"loop": OnLoop(), "thread": InThreads(hold), "process": InProcesses(hold)}


def _check_options(options: Mapping[str, object], known: type, what: str) -> None:
    unknown = sorted(set(options) - set(known.__annotations__) - set(Surroundings.__annotations__))
    if unknown:
        raise UsageError(f"{what} has no option {', '.join(unknown)}")
    for name, (fits, wanted) in FITTING.items():
        if name in options and not fits(options[name]):
            raise InvalidValue(f"{name}= is {wanted}, not {shown(options[name])}")


@contextlib.contextmanager
def _signals_handled(stop: Callable[[], None]) -> Generator[None]:
    loop = asyncio.get_running_loop()
    handled: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # not here, or not the main thread
            loop.add_signal_handler(number, stop)
            handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
