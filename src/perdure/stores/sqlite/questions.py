"""Questions: queries from a process without the code to one that has it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from perdure.errors import StoreCorrupt
from perdure.stores.records import Question
from perdure.stores.sqlite import counters, sql, states
from perdure.stores.sqlite.access import Access, json_of
from perdure.stores.sqlite.rows import sealed, whole_ones
from perdure.stores.sqlite.worker_rows import read_question


def ask(access: Access, found: tuple[str, str | None], name: str, arguments: bytes) -> Question:
    there = states.find(access, *found)
    number = counters.give(access, "questions")
    values = (number, there.number, there.facts.run_id, there.facts.workflow, name, arguments)
    access.write_row(sql.INSERT_QUESTION, sealed("questions", (*values, access.now_us, None)))
    return Question(*values)


def list_questions(access: Access, workflows: Sequence[str]) -> list[Question]:
    return [question for question, _ in whole_ones(access.rows(sql.UNANSWERED, json_of(workflows)), read_question)]


def answer(access: Access, number: int, answer: bytes) -> None:
    row = access.row(sql.QUESTION, number)
    if row is None:
        return  # whoever asked has gone
    if read_question(row)[1] is None:
        seal = sealed("questions", (*row[:-2], answer))[-1]
        access.write(sql.ANSWER, number, answer, seal)


def has_answer(access: Access, number: int) -> bool:
    row = access.row(sql.QUESTION, number)
    return row is not None and read_question(row)[1] is not None


def take_answer(access: Access, number: int) -> bytes | None:
    row = access.row(sql.QUESTION, number)
    given = None if row is None else read_question(row)[1]
    if given is not None:
        _remove(access, number)
    return given


def forget_question(access: Access, number: int) -> None:
    if access.row(sql.QUESTION, number) is not None:
        _remove(access, number)


def _remove(access: Access, number: int) -> None:
    access.write(sql.DELETE_QUESTION, number)
    with suppress(StoreCorrupt):  # `verify` finds a damaged counter, and it is to hold up nobody
        counters.take_back(access, "questions")
