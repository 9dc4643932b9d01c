"""`perdure pipeline`: seen and looked after from the shell, on a store that another process has written (L10, L11)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Client
from perdure.pipelines import Pipeline, Prepared
from tests.cli.stage import Shell

MODULE = """
from perdure.pipelines import Pipeline, Prepared

mail = Pipeline("mail")
inbox = mail.topic("inbox", str)

@mail.producer(every="1h", publishes=[inbox])
async def poll(ctx, state: int | None) -> int:
    await ctx.publish(inbox, "hello", message_id=f"m-{state or 0}")
    return (state or 0) + 1

async def append(text):
    raise ConnectionError("the answer was lost")

@mail.consumer(inbox)
class ToSheet:
    async def prepare(self, ctx, state) -> Prepared:
        events = await ctx.peek(inbox, limit=1)
        return Prepared({inbox: [one.id for one in events]}, [one.payload for one in events])
    async def mutate(self, ctx, prepared):
        return await ctx.perform(append, prepared.data[0])
"""


def test_doctor_counts_what_it_has_verified_of_pipelines(deployed: Shell) -> None:
    assert "0 questions, 1 pipeline, 0 handler runs, 2 events" in deployed("doctor").out
    counts = deployed("doctor", "--json").document["counts"]
    assert (counts["pipelines"], counts["handler_runs"], counts["events"]) == (1, 0, 2)


@pytest.fixture
def deployed(shell: Shell) -> Shell:
    """A pipeline that nobody runs, with two events."""
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", str)

    @mail.producer(every="5m", publishes=[inbox])
    async def poll(ctx: Any, state: None) -> None: ...

    @mail.consumer(inbox)
    class Read:
        async def prepare(self, ctx: Any, state: None) -> Prepared:
            return Prepared()

    async def write() -> None:
        async with Client(shell.store) as client:
            await client.pipelines.deploy(mail)
            await client.pipelines.publish(inbox, "one", message_id="m-1")
            await client.pipelines.publish(inbox, "two", message_id="m-2")

    asyncio.run(write())
    return shell


def test_pipelines_are_listed_and_shown(deployed: Shell) -> None:
    assert deployed("pipeline", "list").out.splitlines()[1].split()[:3] == ["mail", "Idle", "2"]
    (line,) = deployed("pipeline", "list", "--json").document
    assert (line["pipeline"], line["status"], line["pending"]["inbox"]["count"]) == ("mail", "Idle", 2)
    assert deployed("pipeline", "--json", "list").document == [line]
    shown = deployed("pipeline", "show", "mail").out
    assert shown.startswith("mail: Idle\n")
    assert "checks every 5 minutes" in shown
    assert "inbox: 2 pending" in shown
    assert deployed("pipeline", "show", "mail", "--json").document == line
    assert deployed("pipeline", "runs", "mail").out == "nothing has run yet\n"


def test_pausing_resuming_and_run_now(deployed: Shell) -> None:
    deployed("pipeline", "pause", "mail")
    assert deployed("pipeline", "show", "mail", "--json").document["status"] == "Stopped"
    assert "paused" in deployed("pipeline", "run-now", "mail", code=2).err
    assert deployed("pipeline", "resume", "mail", "--json").document == {"pipeline": "mail", "paused": False}
    assert deployed("pipeline", "run-now", "mail", "--json").document["queued"] is True


def test_events_are_listed_and_skipped(deployed: Shell) -> None:
    assert deployed("pipeline", "skip", "mail", "inbox", "m-1").out == "m-1 is skipped\n"
    found = {one["id"]: one["status"] for one in deployed("pipeline", "events", "mail", "inbox", "--json").document}
    assert found == {"m-1": "skipped", "m-2": "pending"}
    assert [
        one["id"] for one in deployed("pipeline", "events", "mail", "inbox", "--status", "pending", "--json").document
    ] == ["m-2"]
    assert "m-2" in deployed("pipeline", "events", "mail", "inbox").out
    assert "skipped" in deployed("pipeline", "skip", "mail", "inbox", "m-1", code=2).err


@pytest.mark.parametrize(
    "words",
    [
        ("show", "gone"),
        ("runs", "gone"),
        ("events", "mail", "gone"),
        ("skip", "mail", "inbox", "gone"),
        ("resolve", "gone", "retry"),
        ("pause", ""),
        ("resolve", "gone", "perhaps"),
    ],
)
def test_what_is_not_there_is_one_line_and_a_hint(deployed: Shell, words: tuple[str, ...]) -> None:
    """Section 6."""
    said = deployed("pipeline", *words, code=2).err
    assert said.startswith("error: ")
    assert "hint: " in said
    assert "Traceback" not in said


def test_a_worker_runs_the_pipelines_of_a_module_and_a_person_settles_what_is_unknown(
    shell: Shell, tmp_path: Path
) -> None:
    """L7, L11."""
    (tmp_path / "mailing.py").write_text(MODULE)
    with shell.process("worker", str(tmp_path / "mailing.py"), "--json", cwd=tmp_path) as worker:
        assert worker.until_event("serving")["pipelines"] == ["mail"]
        _until(shell, "paused:reconciliation")
        status = shell("pipeline", "show", "mail", "--json").document
        assert status["status"] == "Needs attention"
        assert "append" in status["issue"]
        waiting = shell("pipeline", "runs", "mail", "--json").document[-1]
        assert waiting["mutation"] == "uncertain"
        assert "ConnectionError" in shell("pipeline", "runs", "mail", "--limit", "1").out
        shell("pipeline", "resolve", waiting["id"], "happened", '"row 7"')
        _until(shell, "committed")
    (event,) = shell("pipeline", "events", "mail", "inbox", "--json").document
    assert event["status"] == "consumed"


def _until(shell: Shell, status: str) -> None:
    """Until the last run of the consumer stands so."""
    for _ in range(2_000):
        ended = shell("pipeline", "runs", "mail", "--json", code=None)  # at first there is no such pipeline yet
        found = [run for run in ended.document if run["handler"] == "ToSheet"] if ended.code == 0 else []
        if found and found[-1]["status"] == status:
            return
    raise AssertionError(f"it did not become {status}")
