"""The operation matrix: what a handler may do in which stage, and that it cannot hide what it did wrong (L3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.define.outcomes import transient
from perdure.errors import InvalidValue, UsageError
from perdure.pipelines import (
    MutateContext,
    NextContext,
    Pipeline,
    PrepareContext,
    ProducerContext,
    ReconcileContext,
)
from perdure.pipelines.contexts import ALLOWED, HandlerContext, Place
from perdure.stores.pipeline_records import NewEvent, StoredEvent
from perdure.stores.records import NewRun, Start

mail = Pipeline("mail")
INBOX = mail.topic("inbox", int)
ROWS = mail.topic("rows", str)


class Book:
    """A host that writes down what it is asked for."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.now = datetime(2026, 6, 1, tzinfo=UTC)

    async def peek(self, topic: str, limit: int) -> Sequence[StoredEvent]:
        self.lines.append(("peek", topic, limit))
        facts = NewEvent(topic=topic, message_id="m1", payload=b"7")
        return [StoredEvent(number=1, facts=facts, published_us=0, attempt=3)]

    async def begin_mutation(self, what: str) -> None:
        self.lines.append(("in flight", what))

    async def call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        self.lines.append(("call", args, dict(kwargs)))
        return fn(*args, **kwargs)

    async def end_mutation(self, result: bytes) -> None:
        self.lines.append(("mutated", result))

    def to_start(self, workflow: Any, args: tuple[Any, ...], id: str | None) -> Start:
        facts = NewRun(run_id="r", workflow_id=id or "r", workflow=workflow.__name__, seed=1, input=b"", started=b"")
        return Start(facts=facts)


def context(stage: Any, **more: Any) -> tuple[HandlerContext, Book]:
    book = Book()
    given: dict[str, Any] = {"topics": (INBOX,), "publishes": (ROWS,), **more}
    place = Place(stage, "sheet", "k1", **given)
    return HandlerContext(place, book), book


def double(number: int, times: int = 2) -> int:
    return number * times


OPERATIONS: dict[str, Callable[[HandlerContext], Any]] = {
    "publish": lambda ctx: ctx.publish(ROWS, "x", message_id="m"),
    "start": lambda ctx: ctx.start(double, 1, id="w"),
    "peek": lambda ctx: ctx.peek(INBOX),
    "perform": lambda ctx: ctx.perform(double, 1),
}


@pytest.mark.parametrize("stage", ["producer", "prepare", "mutate", "reconcile", "next"])
@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_the_operation_matrix(stage: Any, operation: Any) -> None:
    """upstreams.md 5.3: producer: publish. prepare: peek. mutate: one mutation. next: publish (and start)."""
    ctx, book = context(stage)
    allowed = {
        "producer": {"publish"},
        "prepare": {"peek"},
        "mutate": {"perform"},
        "reconcile": set[str](),
        "next": {"publish", "start"},
    }
    assert {one: set(operations) for one, operations in ALLOWED.items()} == allowed
    if operation in allowed[stage]:
        asyncio.run(OPERATIONS[operation](ctx))
        assert ctx.close().violation is None
        return
    with pytest.raises(UsageError, match=f"sheet: {operation} is not for `{stage}`: it belongs into `"):
        asyncio.run(OPERATIONS[operation](ctx))
    assert book.lines == []
    assert ctx.close().violation is not None


def test_a_context_is_every_context_that_a_handler_can_be_annotated_with() -> None:
    ctx, _ = context("next")
    producing: ProducerContext = ctx
    preparing: PrepareContext = ctx
    mutating: MutateContext = ctx
    reconciling: ReconcileContext = ctx
    emitting: NextContext = ctx
    assert mutating.key == reconciling.key == "k1"
    assert producing is preparing is emitting


def test_a_mutation_is_in_flight_before_its_call_and_its_result_is_written_after_it() -> None:
    """L3."""
    ctx, book = context("mutate", result_type=float)
    result = asyncio.run(ctx.perform(double, 2, times=3))
    assert (result, type(result)) == (6, float)  # as it will be after a crash (K20)
    assert book.lines == [("in flight", "double"), ("call", (2,), {"times": 3}), ("mutated", b"6")]


def test_a_second_mutation_is_refused_and_remembered_although_the_code_goes_on() -> None:
    """L3: at most one."""

    async def handler(ctx: HandlerContext) -> None:
        await ctx.perform(double, 1)
        with suppress(UsageError):
            await ctx.perform(double, 2)

    ctx, book = context("mutate")
    asyncio.run(handler(ctx))
    assert len(book.lines) == 3
    assert "one mutation" in str(ctx.close().violation)


def test_what_a_mutation_raises_is_remembered_although_the_code_swallows_it() -> None:
    """L3: or an uncertain outcome could pass for none."""
    problem = transient("slow down")

    def fails() -> None:
        raise problem

    async def handler(ctx: HandlerContext) -> None:
        with suppress(Exception):
            await ctx.perform(fails)

    ctx, book = context("mutate")
    asyncio.run(handler(ctx))
    assert ctx.close().mutation_error is problem
    assert book.lines == [("in flight", "fails"), ("call", (), {})]


def test_published_events_carry_their_ids_and_causes_and_those_without_get_the_same_on_a_retry() -> None:
    """L1."""

    async def handler(ctx: HandlerContext) -> None:
        await ctx.publish(ROWS, "one", message_id="m1")
        await ctx.publish(ROWS, "two")

    for _ in range(2):
        ctx, _ = context("next", causes=("inbox/m1",))
        asyncio.run(handler(ctx))
        assert ctx.close().published == [
            NewEvent(topic="rows", message_id="m1", payload=b'"one"', causes=("inbox/m1",)),
            NewEvent(topic="rows", message_id="k1/1", payload=b'"two"', causes=("inbox/m1",)),
        ]


REFUSALS: list[tuple[Callable[[HandlerContext], Any], type[Exception], str]] = [
    (lambda ctx: ctx.publish(INBOX, 1, message_id="m"), UsageError, "'inbox' is not its own: name it in publishes"),
    (lambda ctx: ctx.publish("rows", "x"), UsageError, "not as 'rows'"),  # type: ignore[arg-type]
    (lambda ctx: ctx.publish(ROWS, 5, message_id="m"), InvalidValue, "payload of 'm' for topic 'rows'"),
    (lambda ctx: ctx.publish(ROWS, {1, 2}, message_id="m"), InvalidValue, "payload of 'm' for topic 'rows'"),
    (lambda ctx: ctx.publish(ROWS, "x", message_id=""), InvalidValue, "message_id is empty"),
    (lambda ctx: ctx.start(double, id=""), InvalidValue, "id of a workflow is empty"),
]


@pytest.mark.parametrize(("call", "error", "said"), REFUSALS)
def test_what_cannot_be_published_or_started_is_refused_at_the_call(
    call: Callable[[HandlerContext], Any], error: type[Exception], said: str
) -> None:
    """Section 6: typed, and nothing is written."""
    ctx, _ = context("next")
    with pytest.raises(error, match=said):
        asyncio.run(call(ctx))
    assert ctx.close().published == []
    assert ctx.close().started == []


def test_peeking_gives_typed_events_and_is_remembered_for_what_may_be_skipped_meanwhile() -> None:
    """L4."""
    ctx, book = context("prepare")
    (event,) = asyncio.run(ctx.peek(INBOX, limit=5))
    assert (event.id, event.payload, event.published_at.year, event.attempt) == ("m1", 7, 1970, 3)
    assert book.lines == [("peek", "inbox", 5)]
    assert ctx.close().peeked == {"inbox": {"m1"}}
    for wrong in (lambda: ctx.peek(ROWS), lambda: ctx.peek(INBOX, limit=0), lambda: ctx.peek(INBOX, limit=True)):
        with pytest.raises(UsageError):
            asyncio.run(wrong())


def test_started_workflows_wait_for_the_commit() -> None:
    ctx, _ = context("next")
    asyncio.run(ctx.start(double, 1, 2, id="w"))
    assert [(one.facts.workflow_id, one.facts.workflow) for one in ctx.close().started] == [("w", "double")]


def test_a_context_that_somebody_has_kept_does_nothing_after_its_stage() -> None:
    ctx, book = context("mutate")
    ctx.close()
    with pytest.raises(UsageError, match="after `mutate` had returned"):
        asyncio.run(ctx.perform(double, 1))
    assert book.lines == []
