"""Whatever happens in whatever order: one run at a time, no busy loop, no event and no trigger lost (L6, L8, L9)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.errors import UsageError
from perdure.pipelines import scheduling
from perdure.pipelines.scheduling import Consumer, Producer, Start, State, Wait

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SUBSCRIBED = {"first": ("a",), "second": ("b", "c")}
TOPICS = ("a", "b", "c")
STATUSES = (
    "paused:transient",
    "paused:approval",
    "paused:reconciliation",
    "failed:logic",
    "failed:internal",
    "crashed",
)


class World:
    """A host in small: it feeds the scheduler, and knows which events there really are."""

    def __init__(self) -> None:
        self.now = NOW
        self.events: dict[str, list[datetime]] = {topic: [] for topic in TOPICS}
        producers = (Producer("poll", every="5m"), Producer("archive", cron="*/7 * * * *"))
        consumers = tuple(Consumer(name, topics) for name, topics in SUBSCRIBED.items())
        self.state = scheduling.deploy(State(producers, consumers), NOW)
        self.runs = 0
        self.unseen: set[str] = set()  # consumers that have been told of an event since their last start
        self.declined: set[str] = set()  # consumers whose last run looked at what there was, and reserved nothing
        self.attempt = 1

    def pending(self, topics: tuple[str, ...] = TOPICS) -> dict[str, datetime | None]:
        return {topic: min(self.events[topic], default=None) for topic in topics}

    def publish(self, topic: str) -> None:
        self.events[topic].append(self.now)
        self.state = scheduling.event(self.state, topic, self.now)
        self.unseen |= {name for name, topics in SUBSCRIBED.items() if topic in topics}

    def advance(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.state = scheduling.tick(self.state, self.now)

    def begin(self) -> str | None:
        """What the scheduler wants to run, begun."""
        wanted = scheduling.decide(self.state, self.now)
        if isinstance(wanted, Wait):
            assert wanted.until is None or wanted.until > self.now, "a wait for what has come would be a busy loop"
            return None
        assert self.state.active is None, "at most one active run"
        self.runs += 1
        self.state = scheduling.start(self.state, wanted.handler, self.now, run=f"r{self.runs}")
        self.unseen.discard(wanted.handler)
        return wanted.handler

    def finish(self, handler: str, *, take: int, wake_in: int | None = None) -> None:
        """Its run ends well: a consumer consumes so many events of each of its topics, a producer publishes some."""
        topics = SUBSCRIBED.get(handler, ())
        reserved = False
        for topic in topics:
            reserved = reserved or bool(self.events[topic][:take])
            del self.events[topic][:take]
        (self.declined.discard if reserved else self.declined.add)(handler)
        wake_at = None if wake_in is None else self.now + timedelta(seconds=wake_in)
        pending = self.pending(topics) if topics else None
        self.state = scheduling.commit(self.state, handler, self.now, reserved, wake_at, pending)
        self.attempt = 1

    def fail(self, handler: str, status: str) -> None:
        self.state = scheduling.fail(
            self.state, handler, self.now, run=f"r{self.runs}", status=status, attempt=self.attempt
        )
        self.attempt += 1

    def die(self) -> None:
        """The worker is gone, and with it what was only in memory; another takes over."""
        stored = State(
            tuple(
                Producer(one.name, one.every, one.cron, one.timezone, one.next_run_at or self.now)
                for one in self.state.producers
            ),
            tuple(Consumer(one.name, one.topics, wake_at=one.wake_at) for one in self.state.consumers),
            {topic: moment for topic, moment in self.pending().items() if moment is not None},
            active=self.state.active,
            active_run=self.state.active_run,
            blocked=self.state.blocked,
            paused=self.state.paused,
        )
        self.state = scheduling.recover(stored, self.now)

    def settle(self, take: int = 1000) -> int:
        """Everything is mended, and everything runs that can; how many runs that took."""
        if self.state.active is not None:
            self.finish(self.state.active, take=take)
        self.state = scheduling.retry(scheduling.resume(self.state), self.now)
        count = 0
        while handler := self.begin():
            self.finish(handler, take=take)
            count += 1
            assert count < 1000, "a busy loop"
        return count


steps = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(TOPICS)),
    st.tuples(st.just("advance"), st.integers(1, 2000)),
    st.tuples(st.just("begin"), st.none()),
    st.tuples(st.just("finish"), st.integers(0, 3)),
    st.tuples(st.just("finish and wake"), st.integers(-100, 100_000)),
    st.tuples(st.just("fail"), st.sampled_from(STATUSES)),
    st.tuples(st.sampled_from(["pause", "resume", "retry", "run now", "die", "deploy"]), st.none()),
)


def carry_out(world: World, step: str, argument: object) -> None:
    active = world.state.active
    match step, argument:
        case "publish", str(topic):
            world.publish(topic)
        case "advance", int(seconds):
            world.advance(seconds)
        case "begin", _:
            world.begin()
        case "finish", int(take) if active:
            world.finish(active, take=take)
        case "finish and wake", int(seconds) if active:
            world.finish(active, take=0, wake_in=seconds)
        case "fail", str(status) if active:
            world.fail(active, status)
        case "pause", _:
            world.state = scheduling.pause(world.state)
        case "resume", _:
            world.state = scheduling.resume(world.state)
        case "retry", _:
            world.state = scheduling.retry(world.state, world.now)
        case "deploy", _:
            world.state = scheduling.deploy(world.state, world.now)
        case "die", _:
            world.die()
        case "run now", _:
            before = world.state
            try:
                world.state = scheduling.run_now(world.state, world.now)
            except UsageError:
                assert before.active or before.paused or before.blocked
        case _:
            pass


stories = st.lists(steps, max_size=60)


@settings(max_examples=300, deadline=None)
@given(stories)
def test_no_event_is_lost_whatever_happens(story: list[tuple[str, object]]) -> None:
    """L6, L8, L9: once nothing stands in the way, every event is consumed, or was looked at and declined."""
    world = World()
    for step, argument in story:
        carry_out(world, step, argument)
    world.settle()
    left = {name for name, topics in SUBSCRIBED.items() if any(world.events[topic] for topic in topics)}
    assert left <= world.declined - world.unseen
    assert not world.unseen


@settings(max_examples=300, deadline=None)
@given(stories)
def test_handlers_that_find_nothing_to_do_come_to_rest_after_one_run_each(story: list[tuple[str, object]]) -> None:
    """L6: no busy loop, even where events stay pending; what still waits, waits for the future."""
    world = World()
    for step, argument in story:
        carry_out(world, step, argument)
    count = world.settle(take=0)
    # A retry may be followed by the handler's own flags, and a trigger that came during a run by one more.
    assert count <= 2 * len(world.state.handlers)
    assert world.begin() is None
    assert not world.unseen


@settings(max_examples=300, deadline=None)
@given(stories, st.sampled_from(TOPICS), st.booleans())
def test_a_trigger_after_the_start_of_a_run_survives_its_commit(
    story: list[tuple[str, object]], topic: str, same: bool
) -> None:
    """L6: an event that comes while its own consumer, or anything else, is running is looked at afterwards."""
    world = World()
    for step, argument in story:
        carry_out(world, step, argument)
    world.settle()
    consumer = next(name for name, topics in SUBSCRIBED.items() if topic in topics)
    handler = consumer if same else "poll"
    world.state = scheduling.start(world.state, handler, world.now)
    world.publish(topic)
    world.finish(handler, take=0)
    assert scheduling.decide(world.state, world.now) == Start(consumer)


@settings(max_examples=200, deadline=None)
@given(stories)
def test_while_nobody_intervenes_a_pipeline_that_is_stopped_starts_nothing(story: list[tuple[str, object]]) -> None:
    """L8, L11: neither triggers nor time lift a pause, or a block that a person has to settle."""
    world = World()
    for step, argument in story:
        carry_out(world, step, argument)
    if world.state.active is not None:
        world.fail(world.state.active, "paused:approval")
    world.state = scheduling.pause(world.state)
    for topic in TOPICS:
        world.publish(topic)
    world.advance(1_000_000)
    assert scheduling.decide(world.state, world.now) == Wait()


def test_a_producer_that_is_due_goes_first_after_a_hundred_consumer_runs_in_a_row() -> None:
    """L6: consumers that always have something to do do not keep producers waiting for ever."""
    world = World()
    world.settle()
    world.publish("a")
    world.advance(600)
    order: list[str | None] = []
    for _ in range(203):
        handler = world.begin()
        order.append(handler)
        if handler == "first":
            world.publish("a")
        assert handler is not None
        world.finish(handler, take=1)
    assert order == ["first"] * 100 + ["poll"] + ["first"] * 100 + ["archive"] + ["first"]


def test_producers_take_turns_when_all_are_always_due() -> None:
    """L6 leaves their order open: who has been due for longest goes first, so that none starves."""
    producers = tuple(Producer(name, cron="* * * * *") for name in ("one", "two", "three"))
    state, now, order = scheduling.deploy(State(producers), NOW), NOW, list[str]()
    for _ in range(7):
        wanted = scheduling.decide(state, now)
        assert isinstance(wanted, Start)
        order.append(wanted.handler)
        state = scheduling.start(state, wanted.handler, now)
        now += timedelta(minutes=2)  # longer than its own period
        state = scheduling.commit(state, wanted.handler, now)
    assert order == ["one", "two", "three", "one", "two", "three", "one"]
