"""The client: starts runs, and hands out handles to them; it needs no code of theirs but to encode their input.

In:  app.Engine and app.Client, the command line.
Out: the store; a worker of this process, if there is one, gets at once what was written for it.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, TypeVar, Unpack, cast, overload

import msgspec

from perdure import codec
from perdure.clock import Clock, moment_of
from perdure.define.handlers import Signal
from perdure.define.registry import Registry
from perdure.define.retry import Duration
from perdure.define.starting import Start0, Start1, Start2, Start3, Start4
from perdure.define.workflow import Workflow, definition_of
from perdure.engine.descriptions import RunSummary, summary_of
from perdure.engine.filters import read_filter, read_limit
from perdure.engine.handles import Handle, check_text, signal_job
from perdure.engine.runs import Runs
from perdure.engine.settings import DEFAULT_QUEUE, PAYLOAD_BYTES_MAX
from perdure.errors import Failure, InvalidValue, NotFound, UsageError
from perdure.model import jobs
from perdure.model.ids import check_id
from perdure.stores.port import Store
from perdure.stores.records import Condition, NewRun, Settlement, Start

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
E = TypeVar("E")
R = TypeVar("R")
write = msgspec.json.Encoder().encode
SEED_BITS = 63
PAGE_RUNS = 200
POLICIES = ("use_existing", "reject", "terminate", "again")
IdPolicy = Literal["use_existing", "reject", "terminate", "again"]


class StartOptions(TypedDict, total=False):
    """What the start of a run may set."""

    id: str | None
    id_policy: IdPolicy
    delay: Duration | None
    timeout: Duration | None
    queue: str | None
    priority: int
    attributes: Mapping[str, Any] | None
    memo: Mapping[str, Any] | None


class SignalWithStart(StartOptions):
    """What else a signal with a start needs, or may say."""

    signal: str | Signal[..., Any]
    signal_args: NotRequired[Sequence[Any]]
    message_id: NotRequired[str | None]


class RunClient:
    """Runs of one store, from the outside."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        clock: Clock,
        rng: random.Random,
        payload_bytes_max: int = PAYLOAD_BYTES_MAX,
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._rng = rng
        self._runs = Runs(store, registry, clock, rng, payload_bytes_max)

    @property
    def store(self) -> Store:
        """The store that its URL names."""
        return self._store

    @overload
    async def start(self, workflow: Start0[R], /, **options: Unpack[StartOptions]) -> Handle[R]: ...
    @overload
    async def start(self, workflow: Start1[A, R], a: A, /, **options: Unpack[StartOptions]) -> Handle[R]: ...
    @overload
    async def start(self, workflow: Start2[A, B, R], a: A, b: B, /, **options: Unpack[StartOptions]) -> Handle[R]: ...
    @overload
    async def start(
        self, workflow: Start3[A, B, C, R], a: A, b: B, c: C, /, **options: Unpack[StartOptions]
    ) -> Handle[R]: ...
    @overload
    async def start(
        self, workflow: Start4[A, B, C, E, R], a: A, b: B, c: C, e: E, /, **options: Unpack[StartOptions]
    ) -> Handle[R]: ...
    @overload
    async def start(self, workflow: str, /, *args: Any, **options: Unpack[StartOptions]) -> Handle[Any]: ...
    async def start(self, workflow: Any, /, *args: Any, **options: Any) -> Handle[Any]:
        """Start a run; once this returns, it survives everything (E2). `AlreadyExists`, `InvalidValue`."""
        return await self._start(workflow, self._to_start(workflow, args, options))

    @overload
    async def run(self, workflow: Start0[R], /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    async def run(self, workflow: Start1[A, R], a: A, /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    async def run(self, workflow: Start2[A, B, R], a: A, b: B, /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    async def run(self, workflow: Start3[A, B, C, R], a: A, b: B, c: C, /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    async def run(
        self, workflow: Start4[A, B, C, E, R], a: A, b: B, c: C, e: E, /, **options: Unpack[StartOptions]
    ) -> R: ...
    @overload
    async def run(self, workflow: str, /, *args: Any, **options: Unpack[StartOptions]) -> Any: ...
    async def run(self, workflow: Any, /, *args: Any, **options: Any) -> Any:
        """Start a run, and wait for its result."""
        handle = await self._start(workflow, self._to_start(workflow, args, options))
        return await handle.result()

    @overload
    async def signal_with_start(self, workflow: Start0[R], /, **options: Unpack[SignalWithStart]) -> Handle[R]: ...
    @overload
    async def signal_with_start(
        self, workflow: Start1[A, R], a: A, /, **options: Unpack[SignalWithStart]
    ) -> Handle[R]: ...
    @overload
    async def signal_with_start(
        self, workflow: Start2[A, B, R], a: A, b: B, /, **options: Unpack[SignalWithStart]
    ) -> Handle[R]: ...
    @overload
    async def signal_with_start(
        self, workflow: Start3[A, B, C, R], a: A, b: B, c: C, /, **options: Unpack[SignalWithStart]
    ) -> Handle[R]: ...
    @overload
    async def signal_with_start(
        self, workflow: Start4[A, B, C, E, R], a: A, b: B, c: C, e: E, /, **options: Unpack[SignalWithStart]
    ) -> Handle[R]: ...
    @overload
    async def signal_with_start(
        self, workflow: str, /, *args: Any, **options: Unpack[SignalWithStart]
    ) -> Handle[Any]: ...
    async def signal_with_start(
        self,
        workflow: Any,
        /,
        *args: Any,
        signal: str | Signal[..., Any],
        signal_args: Sequence[Any] = (),
        message_id: str | None = None,
        **options: Any,
    ) -> Handle[Any]:
        """Signal the run of this id; if there is none, or it has ended, start one that has the signal waiting (M1)."""
        if options.get("id") is None:
            raise UsageError("signal_with_start needs `id=`: the run that gets the signal, or is started")
        if not isinstance(signal_args, list | tuple):
            raise InvalidValue(
                "signal_args is a list of the signal's arguments, as in signal_args=[5], "
                f"not {type(signal_args).__name__}"
            )
        job = signal_job(signal, tuple(signal_args), {}, message_id)
        self._runs.check_sent(job.encoded, f"signal `{job.name}`")
        start = self._to_start(workflow, args, {"id_policy": "again", **options})
        return await self._start(workflow, msgspec.structs.replace(start, message=write(job), message_id=message_id))

    async def resolve_promise(self, key: str, value: object = None) -> None:
        """Resolve the promise of this key (M4). `NotFound`; `AlreadyExists` if settled otherwise, or lapsed."""
        settlement = Settlement(
            self._runs.sized(codec.encode(value, "the value of a promise"), "the value of a promise")
        )
        await self._runs.settle(None, None, check_id(key, "the key of a promise"), settlement)

    async def reject_promise(self, key: str, message: str = "") -> None:
        """Reject the promise of this key (M4). `NotFound`; `AlreadyExists` if settled otherwise, or lapsed."""
        settlement = Settlement(rejected=check_text(message, "message"))
        await self._runs.settle(None, None, check_id(key, "the key of a promise"), settlement)

    async def complete_activity(self, token: str, value: object = None) -> None:
        """Give an activity its value, from outside: `token` is its `activity_info().token`. The same again is nothing.

        `NotFound`, `RunClosed`; `AlreadyExists` where it has ended otherwise; `InvalidValue` where its workflow could
        not read the value.
        """
        await self._runs.outside.complete_activity(token, value)

    async def fail_activity(self, token: str, error: BaseException | Failure | str) -> None:
        """Have an activity fail, from outside: for good, unless the error is `transient(…)`. The same again is nothing.

        `NotFound`, `RunClosed`; `AlreadyExists` where it has ended otherwise.
        """
        await self._runs.outside.fail_activity(token, error)

    def handle(self, id: str, run_id: str | None = None) -> Handle[Any]:
        """The run of a workflow id: its newest generation, or the one of this run id. Looks up nothing yet."""
        check_id(id, "a workflow id")
        if run_id is not None:
            check_id(run_id, "a run id")
        return Handle(self._runs, id, run_id, fixed=run_id is not None)

    def list(self, filter: str = "", *, limit: int | None = None) -> AsyncIterator[RunSummary]:
        """The runs that a filter picks, the newest first; those that are started meanwhile are not among them.

        Read in pages as they are asked for, each run as it stands then. `InvalidValue` for a filter that is none.
        """
        wanted = read_filter(filter, moment_of(self._clock.now_us()))
        return self._pages(wanted, read_limit(limit))

    async def count(self, filter: str = "") -> int:
        """How many runs a filter picks. `InvalidValue` for a filter that is none."""
        return await self._store.count_runs(read_filter(filter, moment_of(self._clock.now_us())))

    # --- leaves -----------------------------------------------------------------------------------

    async def _pages(self, wanted: Condition, limit: int | None) -> AsyncIterator[RunSummary]:
        before: int | None = None
        left = limit
        while left is None or left > 0:
            asked = PAGE_RUNS if left is None else min(PAGE_RUNS, left)
            page = await self._store.list_runs(wanted, asked, before)
            for run in page:
                yield summary_of(run)
            if len(page) < asked:
                return
            before = page[-1].number
            left = None if left is None else left - asked

    def _to_start(self, workflow: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> Start:
        unknown = sorted(set(options) - set(StartOptions.__annotations__))
        if unknown:
            raise UsageError(f"start has no option {', '.join(unknown)}")
        definition = self._registry.workflows.get(workflow) if isinstance(workflow, str) else definition_of(workflow)
        name = check_id(workflow, "the name of a workflow") if definition is None else definition.name
        queue = _queue(options.get("queue"), definition)
        self._check_known(name, queue)
        if definition is None:
            encoded, keywords = codec.encode_arguments(args), b""
        else:
            encoded, keywords = definition.signature.bind(args, {})
        run_id = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        given_id = options.get("id")
        workflow_id = run_id if given_id is None else check_id(given_id, "a workflow id")
        policy = options.get("id_policy", "use_existing")
        if policy not in POLICIES:
            raise InvalidValue(f"id_policy is one of {', '.join(POLICIES)}, not {codec.shown(policy)}")
        started = _started(workflow_id, options)
        now_us = self._clock.now_us()
        delay_us = _micros(options.get("delay"), "delay")
        timeout_us = _micros(options.get("timeout"), "timeout")
        if timeout_us is None and definition is not None and definition.timeout is not None:
            timeout_us = round(definition.timeout * 1_000_000)
        facts = NewRun(
            run_id=run_id,
            workflow_id=workflow_id,
            workflow=name,
            version=None if definition is None else definition.version,
            queue=queue,
            priority=_priority(options.get("priority", 0)),
            seed=self._rng.getrandbits(SEED_BITS),
            input=self._runs.sized(encoded, f"the input of workflow `{name}`"),
            keywords=self._runs.sized(keywords, f"the input of workflow `{name}`"),
            started=self._runs.sized(write(started), "what the run begins with, memo and attributes,"),
            attributes=write(started.attributes),
            deadline_us=None if timeout_us is None else now_us + (delay_us or 0) + timeout_us,
        )
        return Start(facts=facts, id_policy=policy, wake_us=None if delay_us is None else now_us + delay_us)

    def _check_known(self, name: str, queue: str) -> None:
        """`NotFound` for a workflow that this engine should know and does not: it serves its queue."""
        worker = self._runs.worker
        if worker is not None and name not in self._registry.workflows and queue in worker.site.settings.queues:
            known = ", ".join(sorted(self._registry.workflows)) or "none"
            raise NotFound(
                f"workflow `{name}` is unknown to this engine, which serves its queue `{queue}`: "
                f"list it in `workflows=`; it knows: {known}"
            )

    async def _start(self, workflow: Any, start: Start) -> Handle[Any]:
        begun = await self._runs.start(start)
        definition = None if isinstance(workflow, str) else definition_of(workflow)
        workflow_id, run_id = begun.facts.workflow_id, begun.facts.run_id
        return Handle(self._runs, workflow_id, run_id, fixed=False, definition=definition, begun=begun)


def _started(workflow_id: str, options: Mapping[str, Any]) -> jobs.Started:
    read: dict[str, dict[str, Any]] = {}
    for what in ("attributes", "memo"):
        given = options.get(what)
        if given is None:
            continue
        if not isinstance(given, Mapping):
            raise InvalidValue(f"{what}= is a mapping of names to values, not {type(given).__name__}")
        named = cast("Mapping[object, object]", given)
        for name in named if what == "memo" else ():
            check_id(name, "a name in the memo")
        encode = codec.encode_attributes if what == "attributes" else codec.encode
        read[what] = codec.plain(encode(dict(named), what))
    attributes = {name: value for name, value in read.get("attributes", {}).items() if value is not None}
    return jobs.Started(workflow_id, memo=read.get("memo", {}), attributes=attributes)


def _queue(given: Any, definition: Workflow[..., Any] | None) -> str:
    if given is not None:
        return check_id(given, "the name of a queue")
    return DEFAULT_QUEUE if definition is None or definition.queue is None else definition.queue


def _priority(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not -(2**31) <= given < 2**31:
        raise InvalidValue(f"priority is a whole number of 32 bits, larger first, not {codec.shown(given)}")
    return given


def _micros(given: Duration | None, what: str) -> int | None:
    return None if given is None else round(codec.duration_seconds(given, what) * 1_000_000)
