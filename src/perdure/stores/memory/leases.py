"""Leases and questions of a memory store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import ref

from msgspec.structs import replace

from perdure.stores.memory.part import Part
from perdure.stores.memory.state import State
from perdure.stores.records import Lease, Question

MICROS = 1_000_000


class MemoryLeases(Part):
    """perdure.stores.port.LeaseStore. A holder is known to be gone when its store object is closed, or dropped."""

    async def open_lease(self, name: str, queues: Mapping[str, int], seconds: float) -> Lease:
        with self._writing() as (state, now):
            state.changes += 1
            lease = Lease(
                number=next(state.lease_numbers),
                name=name,
                queues=dict(queues),
                started_us=now,
                expires_us=now + round(seconds * MICROS),
            )
            state.rows.leases[lease.number] = lease
            assert self._holder is not None
            state.held_by[lease.number] = ref(self._holder)
            state.seconds[lease.number] = seconds
            return lease

    async def renew_lease(self, number: int) -> bool:
        with self._reading() as state:
            lease = state.rows.leases.get(number)
            if lease is None:
                return False
            expires_us = self._clock.now_us() + round(state.seconds[number] * MICROS)
            state.rows.leases[number] = replace(lease, expires_us=expires_us)
            return True

    async def close_lease(self, number: int) -> None:
        with self._writing() as (state, now):
            lease = state.rows.leases.get(number)
            if lease is not None:
                state.end_lease(lease, "handed_over", now)

    async def end_dead_leases(self) -> list[Lease]:
        with self._writing() as (state, now):
            dead = [lease for lease in state.rows.leases.values() if _is_dead(state, lease, now)]
            for lease in dead:
                state.end_lease(lease, "worker_died", now)
            return dead

    async def list_leases(self) -> list[Lease]:
        with self._reading() as state:
            return list(state.rows.leases.values())


class MemoryQuestions(Part):
    """perdure.stores.port.QuestionStore."""

    async def ask(self, workflow_id: str, run_id: str | None, name: str, arguments: bytes) -> Question:
        with self._writing() as (state, _):
            run = state.find(workflow_id, run_id)
            number = next(state.question_numbers)
            question = Question(number, run.number, run.facts.run_id, run.facts.workflow, name, arguments)
            state.rows.questions[number] = question
            state.changes += 1
            return question

    async def list_questions(self, workflows: Sequence[str]) -> list[Question]:
        with self._reading() as state:
            return [
                question
                for question in state.rows.questions.values()
                if question.workflow in workflows and question.number not in state.rows.answers
            ]

    async def answer(self, number: int, answer: bytes) -> None:
        with self._writing() as (state, _):
            if number in state.rows.questions:
                state.rows.answers.setdefault(number, answer)
                state.changes += 1

    async def take_answer(self, number: int) -> bytes | None:
        with self._reading() as state:
            answer = state.rows.answers.pop(number, None)
            if answer is not None:
                del state.rows.questions[number]
            return answer

    async def forget_question(self, number: int) -> None:
        with self._reading() as state:
            state.rows.questions.pop(number, None)
            state.rows.answers.pop(number, None)


def _is_dead(state: State, lease: Lease, now: int) -> bool:
    holder = state.held_by[lease.number]()
    return lease.expires_us <= now or holder not in state.holders
