"""Words: spans, sources and states as people say them; and what a shell completes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from perdure.cli.asking import complete_ids
from perdure.cli.turnwords import command_text, job_text, operations_of
from perdure.cli.words import sentence, short_source, span
from perdure.engine.descriptions import AttemptSeen, Blockage, Description, LeaseSeen, OpenActivity
from perdure.errors import Failure
from perdure.model import jobs
from perdure.model.commands import Command
from perdure.model.turns import Waiting
from perdure.stores.records import Lease
from tests.cli.stage import Shell

NOW = datetime(2030, 5, 17, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0 ms"),
        (0, "0 ms"),
        (0.412, "412 ms"),
        (0.9996, "1.0 s"),
        (4.23, "4.2 s"),
        (59, "59 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (172_799, "47 h"),
        (3 * 86_400 + 5, "3 d"),
    ],
)
def test_a_span_is_said_in_the_largest_unit_that_still_says_something(seconds: float, said: str) -> None:
    assert span(timedelta(seconds=seconds)) == said


def test_a_source_is_short_where_the_reader_knows_the_rest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert short_source(f"{tmp_path}/shop/app.py:3") == "shop/app.py:3"
    assert short_source("/far/away/shop/app.py:3") == "shop/app.py:3"
    assert short_source("") == ""


def described(**facts: Any) -> Description:
    """A run that waits for a signal since three days ago, but for these facts."""
    plain: dict[str, Any] = {
        "id": "o",
        "run_id": "r",
        "type": "checkout",
        "status": "running",
        "queue": "default",
        "priority": 0,
        "started": NOW - timedelta(days=3),
        "closed": None,
        "attributes": {},
        "memo": {},
        "blocked": None,
        "generation": 0,
        "parent": None,
        "turns": 2,
        "waiting": [Waiting("/", "signal `approve`", 1, "/far/away/shop.py:41")],
        "children": [],
        "activities": [],
        "attempts": [],
        "leases": [],
        "pending_messages": 0,
        "next_wake": None,
        "deadline": None,
        "input": [],
    }
    known = {field.name for field in msgspec.structs.fields(Description)}
    return Description(**{name: value for name, value in {**plain, **facts}.items() if name in known})


def said(*, served: bool = True, **facts: Any) -> str:
    """The sentence; `served` is whether a worker serves the default queue."""
    lease = Lease(number=1, name="w", queues={"default": 1}, started_us=0, expires_us=10**18 if served else 1)
    return sentence(described(**facts), [], [lease], NOW)


def activity(**facts: Any) -> OpenActivity:
    plain: dict[str, Any] = {
        "activity": "charge",
        "seq": 0,
        "key": "k",
        "queue": "default",
        "scheduled": NOW - timedelta(minutes=9),
        "due": NOW + timedelta(seconds=8),
        "worker": None,
        "attempt": 3,
        "cancelling": False,
    }
    return OpenActivity(**{**plain, **facts})


def attempt(outcome: str) -> AttemptSeen:
    failure = Failure("ConnectionError", "no route\nto bank") if outcome == "failed" else None
    moment = NOW - timedelta(minutes=1)
    return AttemptSeen(
        activity="charge",
        seq=0,
        key="k",
        attempt=3,
        worker="w",
        started=moment,
        ended=moment,
        outcome=outcome,
        failure=failure,
    )


BLOCKED = Blockage("nondeterminism", "…", NOW - timedelta(hours=3), 9, NOW + timedelta(seconds=41))
HOLDER = LeaseSeen(number=1, worker="w", queues={}, since=NOW, expires=NOW)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, "waiting 3 d for signal `approve` at away/shop.py:41; nothing is wrong"),
        ({"served": False}, "waiting 3 d for signal `approve` at away/shop.py:41; nobody serves queue `default`"),
        (
            {"waiting": [Waiting("/p0", "timer 60 s", 1, ""), Waiting("/p1", "x", 2, "")]},
            "waiting for 2 things, the longest",
        ),
        ({"blocked": BLOCKED}, "blocked for 3 h (nondeterminism), tried 9 times, again in 41 s; nothing is lost"),
        ({"turns": 0, "next_wake": NOW + timedelta(minutes=5)}, "starts in 5 min; nothing is wrong"),
        ({"turns": 0, "served": False}, "has not begun, for 3 d: nobody serves queue `default`"),
        ({"turns": 0}, "waits 3 d for a worker of queue `default` that knows workflow `checkout`"),
        ({"pending_messages": 2}, "2 messages wait for a worker; it will go on at once"),
        ({"pending_messages": 1, "served": False}, "1 message waits for a worker; nobody serves"),
        ({"next_wake": NOW - timedelta(minutes=5)}, "overdue: it should have gone on 5 min ago; workers are there"),
        (
            {"activities": [activity()], "attempts": [attempt("failed")]},
            "activity `charge` failed (3 attempts) and is tried again in 8.0 s: ConnectionError: no route to bank",
        ),
        (
            {"activities": [activity(worker="w")], "attempts": [attempt("worker_died")]},
            "attempt 3 of activity `charge` runs on w; before it: worker died",
        ),
        (
            {"activities": [activity(due=NOW - timedelta(minutes=9), queue="cards")]},
            "activity `charge` waits 9 min: nobody serves queue `cards`",
        ),
        (
            {"activities": [activity(due=NOW - timedelta(minutes=9))]},
            "activity `charge` waits 9 min: the workers of queue `default` are busy",
        ),
        (
            {"activities": [activity(worker="w")], "leases": [HOLDER]},
            "waiting 3 d for signal `approve` at away/shop.py:41, on w; nothing is wrong",
        ),
        ({"status": "completed", "closed": NOW - timedelta(hours=2)}, "completed 2 h ago, after 2 d and 2 turns"),
        (
            {"status": "timed_out", "closed": NOW, "turns": 1, "failure": Failure("TimedOut", "too long")},
            "timed out 0 ms ago, after 3 d and 1 turn: TimedOut: too long",
        ),
        ({"status": "continued", "closed": NOW}, "went on as another generation 0 ms ago, after 2 turns"),
    ],
)
def test_a_state_is_one_sentence_that_says_whether_anything_is_wrong(facts: dict[str, Any], expected: str) -> None:
    assert said(**facts).startswith(expected)


@pytest.mark.parametrize(
    ("waits_for", "expected"),
    [
        (
            "a person",
            "activity `charge` has waited 2 h for a person: .* `perdure resolve o k happened`, did_not_happen or",
        ),
        ("the outside", "waiting 3 d for signal `approve` at away/shop.py:41; nothing is wrong"),
    ],
)
def test_an_activity_that_waits_for_a_person_says_what_to_type(waits_for: str, expected: str) -> None:
    """E4, E5."""
    waits = activity(due=None, waits_for=waits_for, since=NOW - timedelta(hours=2))
    assert re.match(expected, said(activities=[waits], attempts=[attempt("uncertain")]))


def test_jobs_and_commands_are_told_by_the_names_of_what_they_answer() -> None:
    commands = [
        Command("schedule_activity", "/", 0, "charge", msgspec.Raw(b'["o-1",990]')),
        Command("start_timer", "/", 1, None, msgspec.Raw(b"[86400]")),
        Command("start_child", "/", 2, "naps", msgspec.Raw(b"[1]"), options={"id": "n"}),
        Command("set_state", "/", None, "receipt", msgspec.Raw(b'["r"]')),
        Command("fail", "/", None, None, msgspec.Raw(b'[{"type":"ValueError","message":"no"}]')),
        Command("cancel_timer", "/", 1),
        Command(
            "fail_update", "/h0", None, "add", msgspec.Raw(b'[{"type":"ValueError","message":"empty","traceback":"T"}]')
        ),
    ]
    assert [command_text(command) for command in commands] == [
        'activity charge("o-1", 990)',
        "timer 24 h",
        "child naps(1) as n",
        'set state receipt = "r"',
        "failed: ValueError: no",
        "cancel timer #1",
        "fail update add: ValueError: empty",
    ]
    names = operations_of(commands)
    told = [
        jobs.Resolved(0, msgspec.Raw(b'"r"')),
        jobs.Failed(0, Failure("ValueError", "a\nb")),
        jobs.Fired(1),
        jobs.Fired(9),
        jobs.Cancelled(2),
        jobs.Signalled("approve", msgspec.Raw(b"[true]")),
        jobs.CancelRequested("enough"),
    ]
    assert [job_text(job, names) for job in told] == [
        'charge → "r"',
        "charge failed: ValueError: a b",
        "timer 24 h fired",
        "timer #9 fired",
        "child naps cancelled",
        "signal approve(true)",
        "asked to cancel: enough",
    ]


# --- completion -------------------------------------------------------------------------------------


def completed(shell: Shell, *words: str) -> list[str]:
    """What bash is offered for the last of these words."""
    environment = {
        **os.environ,
        "PERDURE_STORE": shell.store,
        "_PERDURE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("perdure", *words)),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-m", "perdure.cli"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [line.split(",", 1)[1] for line in done.stdout.splitlines() if line]


def test_a_shell_completes_commands_options_and_workflow_ids(shell: Shell) -> None:
    for id in ("order-1", "order-2", "other"):
        shell("start", "naps", "1", "--id", id)
    assert completed(shell, "te") == ["terminate"]
    assert completed(shell, "start", "--pol") == ["--policy"]
    assert completed(shell, "show", "order") == ["order-2", "order-1"]


def test_a_shell_completes_the_id_of_a_run_that_many_others_came_after(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.cli.asking.COMPLETIONS_MAX", 2)
    for id in ("old_1", "oldx1", "new-1", "new-2", "new-3"):
        shell("start", "naps", "1", "--id", id)
    context = click.Context(click.Command("show"))
    context.params["store"] = shell.store
    assert complete_ids(context, click.Argument(["id"]), "old_") == ["old_1"]
    assert complete_ids(context, click.Argument(["id"]), "") == ["new-3", "new-2"]


def test_a_shell_completes_behind_options_that_stand_before_the_command(shell: Shell) -> None:
    shell("start", "naps", "1", "--id", "order-1")
    assert completed(shell, "--store", shell.store, "te") == ["terminate"]
    assert completed(shell, "--json", "--store", shell.store, "show", "ord") == ["order-1"]


def test_completing_without_a_store_offers_nothing_and_creates_nothing(shell: Shell, tmp_path: Path) -> None:
    assert completed(shell, "show", "o") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: Shell, name: str) -> None:
    script = shell("completion", name).out
    assert "_PERDURE_COMPLETE" in script
    assert shell("completion", name, "--json").document == {"shell": name, "script": script[:-1]}
