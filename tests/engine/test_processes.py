"""Activities in processes of their own: there and back, stopped by force, dead, and gone with their worker (E4)."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure import Retry
from perdure.engine import processes
from perdure.engine.effects import asks_of
from perdure.engine.retrying import PUT_OFF
from perdure.model import jobs
from perdure.testing.clock import VirtualClock
from tests.engine import process_samples as samples
from tests.engine.performing import Stage, really, until, value_of, virtual
from tests.engine.process_samples import is_alive, said

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason='executor="process" needs a Unix-like system')
ONCE = Retry(attempts=1)
ROOT = Path(__file__).parents[2]


def test_arguments_and_results_go_there_and_back() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.price, samples.big, samples.plain, samples.Holder.held) as stage:
            order = samples.Order("o-1", 990)
            job = await stage.perform(samples.price, order, 5, 6, keywords={"discount": 1})
            assert value_of(job) == {"id": "o-1", "amount": 1000}
            assert value_of(await stage.perform(samples.plain, order)) == {"id": "o-1", "amount": 990}
            assert value_of(await stage.perform(samples.Holder.held)) == "held"
            text = "ü" * 2_000_000  # more than a socket holds, both ways
            assert value_of(await stage.perform(samples.big, text)) == text * 2

    virtual(main)


def test_a_process_is_used_again_and_no_more_run_than_the_limit() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.process_id, processes=2) as stage:
            ids = [await stage.schedule(samples.process_id) for _ in range(12)]
            found = {value_of((await stage.answer(id))[0]) for id in ids}
            assert 1 <= len(found) <= 2
            assert os.getpid() not in found
            assert stage.runner.free == {"default": 100}
        assert not any(is_alive(pid) for pid in found)

    virtual(main)


def test_an_activity_knows_its_attempt_there_too(capfd: pytest.CaptureFixture[str]) -> None:
    """K8. What it prints goes where the worker prints."""

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.facts, samples.talks, processes=1) as stage:
            began = clock.now.timestamp()
            id = await stage.schedule(samples.facts, schedule_to_close=1000)
            run_id = stage.run.facts.run_id
            expected = ["facts", 1, id, "order-1", run_id, began + 1000, False]
            assert value_of((await stage.answer(id))[0]) == expected
            assert value_of(await stage.perform(samples.talks)) is True

    virtual(main)
    assert capfd.readouterr().out == "a word\n"


def test_heartbeats_come_back_and_the_next_attempt_finds_their_details() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.counts, processes=1) as stage:
            job, attempts = await stage.answer(await stage.schedule(samples.counts, 7, heartbeat=60))
            assert value_of(job) == [6, 7]
            assert [one.outcome for one in attempts] == ["failed", "failed", "completed"]

    virtual(main)


def test_what_it_raises_comes_back_as_a_failure_and_the_process_lives_on() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.fails, samples.price, samples.process_id, processes=1) as stage:
            pid = value_of(await stage.perform(samples.process_id))
            refused = await stage.failure(samples.fails, "application")
            assert (refused.type, refused.message, refused.details) == ("CardRefused", "no funds", {"left": 3})
            assert 'raise ApplicationError("no funds"' in (refused.traceback or "")
            retry = Retry(attempts=2, non_retryable=(OSError,))
            for how, type_ in {"exit": "SystemExit", "interrupt": "KeyboardInterrupt", "odd": "OSError"}.items():
                assert (await stage.failure(samples.fails, how, retry=retry)).type == type_
            assert "set is not supported" in (await stage.failure(samples.fails, "set")).message
            unfit = await stage.failure(samples.price, samples.Order("o-1", 1), input=b'[{"id": 7}]')
            assert "was not called" in unfit.message
            assert [report.attempt.failure.type for report in stage.retries if report.attempt.failure] == [
                "SystemExit",
                "KeyboardInterrupt",
            ]
            assert value_of(await stage.perform(samples.process_id)) == pid

    virtual(main)


# --- death --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("exit", "it exited with status 7"),
        ("segfault", "it was ended by SIGSEGV"),
        ("kill", "it was ended by SIGKILL, as happens when memory runs out"),
    ],
)
def test_a_process_that_dies_fails_the_attempt_and_is_replaced(how: str, words: str, tmp_path: Path) -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.dies, processes=1) as stage:
            job, attempts = await stage.answer(await stage.schedule(samples.dies, how, str(tmp_path / "mark")))
            assert value_of(job) == "lived"
            failure = attempts[0].failure
            assert failure is not None
            assert str(failure) == f"ProcessDied: the process that ran activity `dies` died: {words}"

    virtual(main)


def test_a_death_is_noticed_although_a_grandchild_keeps_everything_open(tmp_path: Path) -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.forks, processes=1) as stage:
            failure = await stage.failure(samples.forks, str(tmp_path / "mark"), retry=ONCE)
            assert failure.type == "ProcessDied"

    virtual(main)


def test_what_a_process_said_before_it_died_counts_and_it_is_given_nothing_more(tmp_path: Path) -> None:
    """Its last words and its death are noticed at the same time."""
    mark = tmp_path / "mark"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.leaves, samples.process_id, processes=1) as stage:
            first = await stage.schedule(samples.leaves, str(mark), retry=ONCE)
            second = await stage.schedule(samples.process_id, retry=ONCE)
            await really(lambda: said(mark))
            while is_alive(int(said(mark)[0].split()[1])):  # the loop sees nothing of it meanwhile
                pass
            threading.Event().wait(0.2)
            assert value_of((await stage.answer(first))[0]) == "done"
            assert value_of((await stage.answer(second))[0]) > 0

    virtual(main)


def test_an_activity_that_was_given_to_a_dying_process_and_never_called_gets_another() -> None:
    """Also with no retry at all: nothing has happened yet."""

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.process_id, processes=1) as stage:
            pid = value_of(await stage.perform(samples.process_id))
            os.kill(pid, signal.SIGSTOP)  # it does not take what it is given
            second = await stage.schedule(samples.process_id, retry=ONCE)
            await really(lambda: second in stage.runner.running)
            os.kill(pid, signal.SIGKILL)
            assert value_of((await stage.answer(second))[0]) != pid

    virtual(main)


def test_an_interpreter_that_cannot_be_started_fails_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.process_id, processes=1) as stage:
            monkeypatch.setattr(sys, "executable", "/nowhere/python")
            failure = await stage.failure(samples.process_id, retry=ONCE)
            assert failure.type == "ProcessDied"
            assert "it could not be started" in failure.message
            assert "/nowhere/python" in failure.message
            monkeypatch.undo()
            assert value_of(await stage.perform(samples.process_id)) > 0

    virtual(main)


def test_an_interpreter_that_never_begins_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PROGRAM", "import time; time.sleep(600)")
    monkeypatch.setattr(processes, "BEGIN_SECONDS", 0.2)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.process_id, processes=1) as stage:
            failure = await stage.failure(samples.process_id, retry=ONCE)
            assert "ended by SIGKILL" in failure.message

    virtual(main)


# --- cancelled ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("heartbeat", ["cancelled: activity `waits` was asked to stop", "tidy"]),
        ("info", ["tidy"]),
    ],
)
def test_it_learns_of_its_cancellation_from_its_heartbeat_and_from_its_info(
    how: str, words: list[str], tmp_path: Path
) -> None:
    """E4."""
    mark = tmp_path / "mark"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.waits, samples.process_id, processes=1) as stage:
            id = await stage.schedule(samples.waits, how, str(mark))
            await really(lambda: said(mark))
            stage.runner.cancel(id)
            job, _ = await stage.answer(id)
            if how == "info":
                assert value_of(job) == "as far as it got"
            else:
                assert job == jobs.Cancelled(1)
            begun, *rest = said(mark)
            assert rest == words
            assert value_of(await stage.perform(samples.process_id)) == int(begun.split()[1]), "it is used again"

    virtual(main)


@pytest.mark.parametrize(
    ("how", "words"), [("busy", ["cancelled: it was asked to stop, and its grace is over", "tidy"]), ("deaf", [])]
)
def test_one_that_ignores_its_cancellation_is_interrupted_and_then_killed(
    how: str, words: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """E4: grace, SIGTERM, SIGKILL; its slot is free once it is gone."""
    mark = tmp_path / "mark"

    async def main(clock: VirtualClock) -> None:
        options: dict[str, Any] = {"grace_seconds": 0.1, "processes": 1}
        async with Stage(clock, samples.waits, samples.process_id, **options) as stage:
            id = await stage.schedule(samples.waits, how, str(mark))
            await really(lambda: said(mark))
            stage.runner.cancel(id)
            assert (await stage.answer(id))[0] == jobs.Cancelled(1)
            await until(lambda: stage.runner.free == {"default": 100})
            begun, *rest = said(mark)
            assert rest == words
            pid = int(begun.split()[1])
            assert value_of(await stage.perform(samples.process_id)) != pid
            assert not is_alive(pid)

    virtual(main)
    assert "its process gets SIGTERM, and SIGKILL 1 s later" in caplog.text


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_of_a_group_is_for_the_worker_which_lets_its_activities_finish(
    which: signal.Signals, tmp_path: Path
) -> None:
    """Ctrl-C in a terminal, and SIGTERM from a supervisor, reach the processes too (E3)."""
    mark = tmp_path / "mark"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.waits, processes=1) as stage:
            id = await stage.schedule(samples.waits, "info", str(mark))
            await really(lambda: said(mark))
            os.kill(int(said(mark)[0].split()[1]), which)
            stage.runner.cancel(id)
            assert value_of((await stage.answer(id))[0]) == "as far as it got"

    virtual(main)


def test_a_time_limit_counts_from_when_the_function_is_called_and_ends_it(tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.waits, processes=1) as stage:
            failure = await stage.failure(samples.waits, "heartbeat", str(mark), timeout=0.2, retry=ONCE)
            assert failure.details == {"limit": "start_to_close", "seconds": 0.2}
            await really(lambda: "tidy" in said(mark))

    virtual(main)


def test_the_limit_of_an_attempt_does_not_count_how_long_it_waits_for_a_process(tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.waits, samples.process_id, processes=1) as stage:
            first = await stage.schedule(samples.waits, "info", str(mark))
            await really(lambda: said(mark))
            second = await stage.schedule(samples.process_id, timeout=0.5, retry=ONCE)
            await really(lambda: len(stage.runner.running) == 2)
            later_us = clock.now_us() + 1_000_000
            await until(lambda: clock.now_us() > later_us)
            stage.runner.cancel(first)
            job, (attempt,) = await stage.answer(second)
            assert value_of(job) > 0
            assert attempt.started_us > later_us

    virtual(main)


def test_one_that_waits_for_a_process_is_cancelled_without_one(tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.waits, samples.price, processes=1) as stage:
            first = await stage.schedule(samples.waits, "heartbeat", str(mark))
            await really(lambda: said(mark))
            second = await stage.schedule(samples.waits, "heartbeat", str(tmp_path / "other"))
            late = await stage.schedule(samples.price, samples.Order("o-1", 1), schedule_to_close=0.5)
            await really(lambda: len(stage.runner.running) == 3)
            stage.runner.cancel(second)
            assert (await stage.answer(second))[0] == jobs.Cancelled(2)
            job, _ = await stage.answer(late)
            assert isinstance(job, jobs.Failed)
            assert job.failure.details == {"limit": "schedule_to_close", "seconds": 0.5}
            stage.runner.cancel(first)
            assert (await stage.answer(first))[0] == jobs.Cancelled(1)
            assert isinstance(await stage.perform(samples.price, samples.Order("o-1", 1)), jobs.Resolved)
            assert stage.runner.free == {"default": 100}
            assert said(tmp_path / "other") == []

    virtual(main)


def test_a_stop_ends_all_processes_and_hands_over_what_ran(tmp_path: Path) -> None:
    """E3: within a second or two, deaf or not."""
    mark = tmp_path / "mark"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.waits, processes=1) as stage:
            id = await stage.schedule(samples.waits, "deaf", str(mark))
            await really(lambda: said(mark))
            await stage.runner.stop()
            assert not stage.answers[id].done()
            assert not is_alive(int(said(mark)[0].split()[1]))

    virtual(main)


# --- the line ----------------------------------------------------------------------------------


def test_the_line_between_them_holds_whole_frames_however_they_arrive() -> None:
    sent = b"".join(processes.packed(processes.Cancel()) for _ in range(3))
    unpacker = processes.Unpacker()
    got = [frame for at in range(len(sent)) for frame in unpacker.frames(sent[at : at + 1])]
    assert [json.loads(frame) for frame in got] == [{"type": "cancel"}] * 3
    assert re.fullmatch(rb'(\x00{7}.\{"type":"cancel"\}){3}', sent, re.DOTALL)


def test_an_ask_activity_that_a_stopping_worker_has_not_called_is_not_uncertain(tmp_path: Path) -> None:
    """E5: whether it happened is no question; it waits for the next worker."""
    mark = tmp_path / "mark"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.waits, samples.pays, processes=1) as stage:
            await stage.schedule(samples.waits, "info", str(mark))
            await really(lambda: said(mark))
            waiting = await stage.schedule(samples.pays, "refused")
            await until(lambda: len(stage.claims) == 2)
            await stage.runner.stop()
            assert [(each.id, each.attempt.outcome) for each in stage.retries] == [(waiting, PUT_OFF)]
            assert asks_of([stage.retries[0].attempt]) is None

    virtual(main)
