"""The agenda of the memory store against a list that is sorted anew for every question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from perdure.stores.memory.agenda import SLACK, Agenda


class Put(NamedTuple):
    """It is free from then on, or otherwise free than before."""

    key: int
    queue: str
    kind: str
    when: int
    priority: int


class Drop(NamedTuple):
    """It is not free any more."""

    key: int


class Take(NamedTuple):
    """Which are the most urgent? One of them does not fit."""

    queues: list[str]
    kinds: list[str]
    now: int
    limit: int
    unfit: int


class Next(NamedTuple):
    """When is the first due?"""

    queues: list[str]


few = st.integers(0, 5)
queues, kinds = st.sampled_from(("q-1", "q-2")), st.sampled_from(("a", "b", "c"))
puts = st.builds(Put, few, queues, kinds, few, few)
takes = st.builds(Take, st.lists(queues), st.lists(kinds), few, few, few)
Step = Put | Drop | Take | Next
steps = st.lists(st.one_of(puts, st.builds(Drop, few), takes, st.builds(Next, st.lists(queues))), max_size=60)


@dataclass
class SortedList:
    """What an agenda is, as plainly as it can be said: (-priority, when, order) by key, with queue and kind."""

    entries: dict[int, tuple[str, str, tuple[int, int, int]]] = field(
        default_factory=dict[int, tuple[str, str, tuple[int, int, int]]]
    )
    order: int = 0

    def put(self, new: Put) -> None:
        old = self.entries.get(new.key)
        if old is None or (*old[:2], *old[2][:2]) != (new.queue, new.kind, -new.priority, new.when):
            self.order += 1
            self.entries[new.key] = new.queue, new.kind, (-new.priority, new.when, self.order)

    def take(self, wanted: Take) -> list[int]:
        urgent = sorted(
            (rank, key)
            for key, (queue, kind, rank) in self.entries.items()
            if queue in wanted.queues and kind in wanted.kinds and rank[1] <= wanted.now and key != wanted.unfit
        )
        return [key for _, key in urgent[: wanted.limit]]

    def next_time(self, queues: list[str]) -> int | None:
        return min((rank[1] for queue, _, rank in self.entries.values() if queue in queues), default=None)


@given(steps)
def test_an_agenda_gives_what_a_sorted_list_gives(steps: list[Step]) -> None:
    agenda, plain = Agenda[int](), SortedList()
    for step in steps:
        match step:
            case Put():
                agenda.put(*step)
                plain.put(step)
            case Drop(key):
                agenda.drop(key)
                plain.entries.pop(key, None)
            case Take():
                taken = agenda.take(*step[:4], lambda key, unfit=step.unfit: key != unfit)
                assert taken == plain.take(step)
            case Next(queues):
                assert agenda.next_time(queues) == plain.next_time(queues)
        assert agenda.kinds(("q-1", "q-2")) == {kind for _, kind, _ in plain.entries.values()}


class MeasuredAgenda(Agenda[int]):
    """An agenda of which can be told how much it keeps."""

    @property
    def size(self) -> int:
        lanes = [lane for kinds in self._queues.values() for lane in kinds.values()]
        return sum(len(lane.by_time) + len(lane.later) + len(lane.ready) for lane in lanes)


def test_an_agenda_does_not_grow_with_what_was() -> None:
    """One that sleeps for long is put again and again, and stays one."""
    agenda = MeasuredAgenda()
    for turn in range(10_000):
        agenda.put(1, "q-1", "a", 10**9 + turn, 0)
        agenda.put(2, "q-1", "a", turn, 0)
        assert agenda.take(["q-1"], ["a"], turn, 1) == [2]
    assert agenda.size <= 2 * (2 * 2 + SLACK + 2)
