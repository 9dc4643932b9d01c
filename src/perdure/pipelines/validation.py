"""Validation: a pipeline as a whole, when it is deployed; what is wrong is refused with the line of its declaration.

Refused are: a bad interval or cron expression, topics that are not this pipeline's, topics that nobody subscribes to,
two consumers of one topic, cycles that cannot end, a missing `prepare`, handlers that cannot be called as their stage
calls them, and names that are taken (L2). Nothing is written then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from perdure import codec
from perdure.errors import InvalidValue
from perdure.model.ids import check_id
from perdure.pipelines.cadence import read_cadence
from perdure.pipelines.declare import Declared, DeclaredConsumer, DeclaredProducer, Pipeline
from perdure.pipelines.topics import Topic

_ARGUMENTS = {
    "prepare": ("ctx", "state"),
    "mutate": ("ctx", "prepared"),
    "reconcile": ("ctx", "prepared"),
    "next": ("ctx", "prepared", "outcome"),
}


def validate(pipeline: object) -> Pipeline:
    """The pipeline, if it can be deployed. `InvalidValue` for the first thing that is wrong with it."""
    if not isinstance(pipeline, Pipeline):
        raise InvalidValue(f"a pipeline is made by Pipeline(name), not {type(pipeline).__name__}")
    _check_names(pipeline)
    for producer in pipeline.producers:
        _check_producer(pipeline, producer)
    for consumer in pipeline.consumers:
        _check_consumer(pipeline, consumer)
    _check_subscriptions(pipeline)
    _check_cycles(pipeline)
    if pipeline.on_logic_error is not None and not callable(pipeline.on_logic_error):
        _refuse(
            pipeline.source, f"on_logic_error is an async function of the failed run, not {pipeline.on_logic_error!r}"
        )
    return pipeline


def _check_names(pipeline: Pipeline) -> None:
    groups: tuple[tuple[str, Sequence[Topic[Any] | Declared]], ...] = (
        ("topics", pipeline.topics),
        ("handlers", pipeline.handlers),
    )
    for what, declared in groups:
        places: dict[str, str] = {}
        for one in declared:
            _within(one.source, lambda one=one, what=what: check_id(one.name, f"the name of one of its {what}"))
            if one.name in places:
                _refuse(one.source, f"two {what} are called {one.name!r}; the other is at {places[one.name]}")
            places[one.name] = one.source


# --- handlers ---------------------------------------------------------------------------------


def _check_producer(pipeline: Pipeline, one: DeclaredProducer) -> None:
    what = f"producer {one.name!r}"
    _within(one.source, lambda: read_cadence(one.every, one.cron, one.timezone), what)
    _check_topics(pipeline, one, one.publishes, "publishes to")
    _check_timeout(one)
    _check_call(one.source, what, one.fn, ("ctx", "state"))


def _check_consumer(pipeline: Pipeline, one: DeclaredConsumer) -> None:
    what = f"consumer {one.name!r}"
    if not one.topics:
        _refuse(one.source, f"{what} subscribes to no topic: name at least one, as in @pipeline.consumer(inbox)")
    _check_topics(pipeline, one, one.topics, "subscribes to")
    _check_topics(pipeline, one, one.publishes, "publishes to")
    _check_timeout(one)
    if not isinstance(one.handler, type) or not one.has("prepare"):
        _refuse(one.source, f"{what} has no stage `prepare`: write `async def prepare(self, ctx, state) -> Prepared`")
    if one.has("reconcile") and not one.has("mutate"):
        _refuse(one.source, f"{what} has `reconcile` and no `mutate`: there is nothing to ask about")
    if not _takes(one.handler, 0):
        _refuse(one.source, f"{what} cannot be made: its class is called without arguments before each run")
    for stage, names in _ARGUMENTS.items():
        if one.has(stage):
            bound = not isinstance(inspect.getattr_static(one.handler, stage), staticmethod | classmethod)
            _check_call(one.source, f"`{stage}` of {what}", getattr(one.handler, stage), ("self",) * bound + names)


def _check_call(source: str, what: str, fn: Callable[..., Any], names: tuple[str, ...]) -> None:
    written = f"`async def {getattr(fn, '__name__', 'handler')}({', '.join(names)})`"
    if not callable(fn) or not _takes(fn, len(names)):
        _refuse(source, f"{what} cannot be called with {' and '.join(names[-2:])}: write {written}")
    if not inspect.iscoroutinefunction(fn):
        _refuse(source, f"{what} is not async: write {written}")


def _takes(fn: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(fn).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


def _check_timeout(one: Declared) -> None:
    if one.timeout is not None:
        seconds = _within(one.source, lambda: codec.duration_seconds(one.timeout, f"timeout of {one.name!r}"))
        if seconds == 0:
            _refuse(one.source, f"timeout of {one.name!r} is 0: leave it out for none")


# --- topics -----------------------------------------------------------------------------------


def _check_topics(pipeline: Pipeline, one: Declared, topics: Iterable[Any], does: str) -> None:
    seen: set[str] = set()
    for topic in topics:
        if not isinstance(topic, Topic):
            _refuse(one.source, f"{one.name!r} {does} {topic!r}, which is no topic: declare it with pipeline.topic(…)")
        if not any(topic is known for known in pipeline.topics):
            _refuse(
                one.source,
                f"{one.name!r} {does} the topic {topic.name!r} of pipeline {topic.pipeline!r} ({topic.source}): "
                f"pipeline {pipeline.name!r} does not know it; declare it with pipeline.topic(…) of its own",
            )
        if topic.name in seen:
            _refuse(one.source, f"{one.name!r} {does} the topic {topic.name!r} twice")
        seen.add(topic.name)


def _check_subscriptions(pipeline: Pipeline) -> None:
    consumers: dict[str, DeclaredConsumer] = {}
    for one in pipeline.consumers:
        for topic in one.topics:
            other = consumers.get(topic.name)
            if other is not None:
                _refuse(
                    one.source,
                    f"topic {topic.name!r} has two consumers, {one.name!r} and {other.name!r} ({other.source}): "
                    "an event is consumed once; let one of them publish to a second topic",
                )
            consumers[topic.name] = one
    for topic in pipeline.topics:
        if topic.name not in consumers:
            _refuse(
                topic.source,
                f"nobody subscribes to topic {topic.name!r}: its events would pile up; add a consumer or take it out",
            )


def _check_cycles(pipeline: Pipeline) -> None:
    """Events that go round for ever: a ring of consumers from which no topic leads out."""
    consumers = {topic.name: one for one in pipeline.consumers for topic in one.topics}
    follow = {one.name: {consumers[topic.name].name for topic in one.publishes} for one in pipeline.consumers}
    reach = {name: _reachable(name, follow) for name in follow}
    for one in pipeline.consumers:
        ring = {name for name in reach[one.name] if one.name in reach[name]}
        if ring and reach[one.name] == ring:
            topics = [topic.name for other in pipeline.consumers if other.name in ring for topic in other.publishes]
            _refuse(
                one.source,
                f"{one.name!r} is in a cycle that cannot end: {', '.join(sorted(ring))} publish only to each other "
                f"(by {', '.join(sorted(set(topics)))}); give the events a topic that leads out of it",
            )


def _reachable(name: str, follow: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = list(follow[name])
    while left:
        other = left.pop()
        if other not in found:
            found.add(other)
            left += follow[other]
    return found


# --- refusals ---------------------------------------------------------------------------------


def _refuse(source: str, text: str) -> NoReturn:
    raise InvalidValue(f"{source}: {text}")


def _within(source: str, check: Callable[[], Any], what: str = "") -> Any:
    """What the check gives, or its complaint with the line and what it is about."""
    try:
        return check()
    except InvalidValue as error:
        raise InvalidValue(f"{source}: {what}{': ' if what else ''}{error}") from error
