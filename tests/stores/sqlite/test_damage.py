"""Damage to stored values of every table is found, all of it, and gives nobody a wrong result (E9)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from shutil import copyfile
from typing import Any, cast

import apsw
import pytest
from msgspec.structs import replace

from perdure.errors import NotFound, StoreCorrupt
from perdure.stores.records import EVERY
from perdure.stores.sqlite import SqliteStore
from perdure.testing.clock import VirtualClock
from perdure.testing.conformance.making import JOB, a_beat, a_start, a_task, an_answer
from tests.stores.sqlite.counting import CountingVfs
from tests.stores.sqlite.files import begin, commit, fill, look, with_store

SEED = 20260101
DAMAGES = 500
TABLES = (
    "runs",
    "states",
    "turns",
    "messages",
    "message_ids",
    "updates",
    "promises",
    "found",
    "deadlines",
    "attribute_places",
    "attributes",
    "tasks",
    "leases",
    "questions",
    "counters",
    "migrations",
    "pipelines",
    "handlers",
    "handler_runs",
    "topics",
    "events",
)
WIDTH = 4
MISSING = "missing"


class Vandal:
    """Flips, drops and swaps values of a file, by a seed."""

    def __init__(self, path: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._connection = apsw.Connection(str(path))
        self._cursor: Any = self._connection.cursor()
        self._cursor.execute("pragma synchronous = off")

    def damage(self, table: str) -> str:
        """Damage one thing in a table, and say what."""
        while True:
            self._cursor.execute("savepoint damage")
            try:
                return self._damage(table)
            except apsw.ConstraintError:  # another row has that key, or the column takes no such value
                self._cursor.execute("rollback to damage")
            finally:
                self._cursor.execute("release damage")

    def _damage(self, table: str) -> str:
        keys = [row[1] for row in self._cursor.execute(f"pragma table_info({table})").fetchall() if row[5]]
        columns = [row[1] for row in self._cursor.execute(f"pragma table_info({table})").fetchall()]
        names = " and ".join(f"{key} is ?" for key in keys)
        rows = self._cursor.execute(f"select {', '.join(keys)} from {table}").fetchall()
        one = self._random.choice(rows)
        way = self._random.choice(["flip"] * 6 + ["drop"] + ["swap"] * 3)
        if way == "drop":
            self._cursor.execute(f"delete from {table} where {names}", one)
            return f"{table} {one}: dropped"
        column = self._random.choice(columns)
        (value,) = self._cursor.execute(f"select {column} from {table} where {names}", one).fetchone()
        if way == "swap" and column not in keys:
            other = self._random.choice(rows)
            (its,) = self._cursor.execute(f"select {column} from {table} where {names}", other).fetchone()
            if its != value:
                self._cursor.execute(f"update {table} set {column} = ? where {names}", (its, *one))
                self._cursor.execute(f"update {table} set {column} = ? where {names}", (value, *other))
                return f"{table} {one} and {other}: {column} swapped"
        flipped = self._flipped(value)
        text = "cast(? as text)" if isinstance(value, str) else "?"
        self._cursor.execute(f"update {table} set {column} = {text} where {names}", (flipped, *one))
        return f"{table} {one}: {column} {value!r} is {flipped!r}"

    def close(self) -> None:
        self._connection.close()

    def _flipped(self, value: Any) -> Any:
        if value is None:
            return self._random.choice([b"", 0])
        if isinstance(value, int):
            return value ^ (1 << self._random.randrange(40))
        if isinstance(value, float):
            return -value
        bits = bytearray(value.encode() if isinstance(value, str) else value)
        if not bits:
            return b"\0"
        bits[self._random.randrange(len(bits))] ^= 1 << self._random.randrange(8)
        return bytes(bits)


async def answers(store: SqliteStore) -> dict[str, Any]:
    """What every reading method says, or that it refuses to."""
    found: dict[str, Any] = {}

    async def ask(name: str, call: Awaitable[Any]) -> None:
        try:
            found[name] = await call
        except StoreCorrupt:
            found[name] = StoreCorrupt
        except NotFound:
            found[name] = MISSING

    for number in range(1, WIDTH * 4 + 1):
        await ask(f"run {number}", store.get_runs([number]))
        await ask(f"turns {number}", store.list_turns(number))
        await ask(f"turns {number} after the first", store.list_turns(number, 0))
        await ask(f"messages {number}", store.list_messages(number, 0))
        await ask(f"tasks {number}", store.list_tasks(number))
        await ask(f"children {number}", store.list_children(number))
    for number in range(WIDTH):
        await ask(f"newest {number}", store.get_run(f"o-{number}"))
        await ask(f"answer {number}", store.get_answer(f"o-{number}", None, "u-second"))
        await ask(f"open {number}", store.get_answer(f"o-{number}", None, "u-open"))
        for generation in ("first", "second"):
            run_id = a_start(f"o-{number}", run=generation).facts.run_id
            await ask(f"{generation} {number}", store.get_run(f"o-{number}", run_id))
    await ask("pending", store.list_pending(1))
    await ask("leases", store.list_leases())
    await ask("cancelled", store.list_cancelled(1))
    await ask("questions", store.list_questions(["order"]))
    await ask("pipelines", store.list_pipelines())
    await ask("view", _view(store))
    await ask("handler runs", store.list_handler_runs("mail", 100))
    await ask("last handler runs", store.list_last_handler_runs("mail", 2))
    for topic in ("inbox", "rows"):
        await ask(f"pending {topic}", store.peek_events("mail", topic, 100))
        await ask(f"events {topic}", store.list_events("mail", topic, 100))
    return found


async def _view(store: SqliteStore) -> Any:
    """All of it but for which event is the newest: that only says when to look."""
    return replace(await store.view_pipeline("mail"), newest={})


def is_right(name: str, got: Any, truth: Any) -> bool:
    """Whether an answer is the truth, or none.

    What is looked up may be missing if the very key is damaged under which it was, but it is never another one.
    """
    if got is StoreCorrupt or got == truth or (got == MISSING and name.startswith(LOOKED_UP)):
        return True
    is_set = name in SETS or name.startswith("children")
    return is_set and all(each in truth for each in cast("list[Any]", got))


LOOKED_UP = ("newest", "first", "second", "answer", "open")
SETS = ("pending", "leases", "cancelled", "questions")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with something in every table."""
    path = tmp_path_factory.mktemp("whole") / "store.db"
    with_store(path, fill, clock=VirtualClock(), threads=False)
    for table in TABLES:
        assert look(path, f"select count(*) from {table}") > [(0,)], table
    assert look(path, "select count(at_hand) from states") > [(0,)]
    return path


def test_all_damage_is_found_and_none_gives_a_wrong_result(whole: Path, tmp_path: Path) -> None:
    truth = with_store(whole, answers, clock=VirtualClock(), threads=False)
    assert with_store(whole, lambda store: store.verify(), threads=False) == []
    assert not any(answer is StoreCorrupt or answer == MISSING for answer in truth.values())
    chosen, path = random.Random(SEED), tmp_path / "store.db"
    done: Counter[str] = Counter()
    vfs = CountingVfs("careless", careless=True)
    missed: list[str] = []
    wrong: list[str] = []

    async def check(store: SqliteStore) -> None:
        if not await store.verify():
            missed.append(what)
        for name, answer in (await answers(store)).items():
            if not is_right(name, answer, truth[name]):
                wrong.append(f"{what}: {name} is {answer}, not {truth[name]}")

    for number in range(DAMAGES):
        table = chosen.choice(TABLES)
        copyfile(whole, path)
        vandal = Vandal(path, SEED + number)
        what = f"damage {number}: {vandal.damage(table)}"
        vandal.close()
        done[table] += 1
        try:
            with_store(path, check, clock=VirtualClock(), threads=False, vfs="careless")
        except StoreCorrupt:
            assert table == "migrations", what  # which is read as it is opened
    vfs.unregister()
    assert (missed, wrong) == ([], [])
    assert set(done) == set(TABLES)
    assert sum(done.values()) == DAMAGES


def test_a_damaged_run_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """It is put aside with the reason, whichever of its rows is damaged; all others are claimed and go on."""
    path = tmp_path / "store.db"
    damages = [
        "update states set waiting = x'00' where number = 1",
        "update runs set input = x'00' where number = 2",
        "delete from states where number = 3",
        "update states set workflow = 'order', seal = x'00' where number = 4",
    ]

    async def start(store: SqliteStore) -> None:
        for number in range(1, 8):
            await begin(store, f"o-{number}")

    async def go_on(store: SqliteStore) -> None:
        lease = await store.open_lease("w-1", {}, 60.0)
        claimed = await store.claim_runs(lease.number, ["default"], ["order"], 10)
        assert [run.number for run in claimed] == [5, 6, 7]
        for run in claimed:
            await commit(store, run, lease.number, park=True)
        assert await store.claim_runs(lease.number, ["default"], ["order"], 10) == []
        assert await store.get_next_wake(["default"]) is None
        listed = await store.list_runs(EVERY, 10)
        blocked = {run.number: run.blocked.kind for run in listed if run.blocked is not None}
        assert blocked == {1: "corrupt", 2: "corrupt", 3: "corrupt", 4: "corrupt"}
        assert {damage.row for damage in await store.verify()} == {"1", "2", "3", "4"}

    with_store(path, start)
    for statement in damages:
        look(path, statement)
    with_store(path, go_on)


def test_a_damaged_task_stops_its_run_and_no_other_task(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def go_on(store: SqliteStore) -> None:
        lease = await store.open_lease("w-2", {}, 60.0)
        taken = await store.claim_tasks(lease.number, "slow", ["charge"], 100)
        assert {task.run for task in taken} == {7, 11, 15}
        damaged = (await store.get_runs([3]))[0]
        assert damaged.blocked is not None
        assert "tasks, row" in damaged.blocked.reason

    with_store(path, fill)
    look(path, "update tasks set options = x'7b7d' where run = 3 and seq = 1")
    with_store(path, go_on)


def test_damage_of_one_holds_up_no_other_in_a_batch(tmp_path: Path) -> None:
    """What an owner has, what it reports and beats, and what is listed for it."""
    path = tmp_path / "store.db"

    async def start(store: SqliteStore) -> None:
        lease = await store.open_lease("w-1", {}, 600.0)
        for number in range(4):
            run = await begin(store, f"o-{number}", lease.number)
            new = (a_task(str(number), claimed=True), a_task(f"beside {number}", seq=1))  # two are rows
            await commit(store, run, lease.number, new_tasks=new)
            await store.accept_message(f"o-{number}", None, JOB)
            await store.ask(f"o-{number}", None, "total", b"[]")

    async def go_on(store: SqliteStore) -> None:
        assert {run.number for run in await store.list_pending(1)} == {1, 3}
        assert [run.number for run in await store.get_runs([1, 2, 3])] == [1, 3]
        assert [question.number for question in await store.list_questions(["order"])] == [1, 2, 3]
        tasks = [(await store.list_tasks(number))[0] for number in (1, 3)]
        lost = [replace(tasks[0], id=a_task(name).id) for name in ("1", "3")]
        attempts = [tasks[0], *lost, tasks[1]]
        assert await store.beat_tasks([a_beat(task) for task in attempts]) == [False, False, None, False]
        assert await store.report_tasks([an_answer(task) for task in attempts]) == [True, False, False, True]
        assert (await store.get_runs([1]))[0].accepted == 2
        assert len(await store.end_dead_leases()) == 1

    with_store(path, start)
    look(path, "update states set waiting = x'00' where number = 2")
    look(path, "update tasks set input = x'00' where run = 4 and seq = 0")
    look(path, "update states set waiting = x'00' where number = 4")
    look(path, "update questions set name = 'other' where number = 4")
    look(path, "update counters set amount = 7 where name = 'leases'")
    with_store(path, go_on)


@pytest.mark.parametrize("drop", [1, 2])
def test_a_lost_turn_is_found(drop: int, tmp_path: Path) -> None:
    """A lost tail as well: the run's state knows the last turn."""
    path = tmp_path / "store.db"
    with_store(path, fill)
    look(path, "delete from turns where run = 1 and number = ?", drop - 1)

    async def work(store: SqliteStore) -> None:
        for read in (store.list_turns(1), store.list_turns(1, -1, 5)):
            with pytest.raises(StoreCorrupt):
                await read
        assert len(await store.list_turns(3)) == 2

    with_store(path, work)


def test_damaged_pages_are_found_and_stop_only_who_needs_them(tmp_path: Path) -> None:
    """Bits that the disk has flipped below SQLite's feet."""
    path = tmp_path / "store.db"

    async def long(store: SqliteStore) -> None:
        lease = await store.open_lease("w-1", {}, 60.0)
        for number in range(2):
            run = await begin(store, f"o-{number}", lease.number, input=b'"%s"' % (b"%d" % number * 20_000))
            await commit(store, run, lease.number)

    with_store(path, long)
    content = path.read_bytes()
    at = content.index(b"1" * 3_000) + 100
    path.write_bytes(content[:at] + b"0" + content[at + 1 :])

    async def work(store: SqliteStore) -> None:
        assert (await store.get_run("o-0")).last_turn == 0
        with pytest.raises(StoreCorrupt, match="runs, row 2"):
            await store.get_run("o-1")
        assert [damage.row for damage in await store.verify()] == ["2"]

    with_store(path, work)
