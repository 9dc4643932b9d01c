"""Workflows whose runs hold every kind of command, and what they are told.

Their runs were recorded once, to tests/histories/strict; test_replay.py and test_nondeterminism.py replay them, as
they are and damaged in one place.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn, cast

from perdure import (
    activity,
    attributes,
    child,
    choose,
    clear_state,
    continue_as_new,
    patched,
    promise,
    publish,
    publish_to,
    run_of,
    set_state,
    side_effect,
    signal,
    sleep,
    update,
    wait_until,
    workflow,
)
from perdure.testing import Harness, cancel, cancelled, fire, resolve, resolve_promise
from perdure.testing import signal as send
from perdure.testing import update as ask

FOLDER = Path(__file__).parents[1] / "histories/strict"


@activity
async def fetch(what: str, *, note: str = "") -> str: ...


@workflow
async def invoice(number: int) -> str:
    return f"invoice {number}"


@workflow
class Everything:
    """Emits every kind of command but three endings."""

    def __init__(self) -> None:
        self.items: list[str] = []

    async def run(self, number: int) -> str:
        self._note(number)
        chosen = await choose(lambda: "left", lambda: "right")
        task = fetch.options(timeout=5)(chosen, note="soon")
        slow, pause, kid = fetch("slow"), sleep(60), child(invoice, number, id="kid")
        sent, asked = run_of("other").signal("go", number), run_of("other").cancel("enough")
        answer = promise("answer", str, key="k-1")
        first = await task
        slow.cancel()
        pause.cancel()
        kid.cancel()
        await sent
        await asked
        await sleep(5)
        text = await answer
        await wait_until(lambda: len(self.items) > 1)
        return f"{first} {text} {self.items}"

    def _note(self, number: int) -> None:
        set_state("order", {"number": number})
        clear_state("draft")
        attributes(region="north")
        publish_to("orders", {"number": number}, message_id="m-1")
        mark = side_effect("mark", lambda: 7)
        if patched("publishes-mark"):
            publish(mark)

    @signal
    def put(self, item: str) -> None:
        self.items.append(item)

    @update
    async def add(self, item: str) -> int:
        self.items.append(item)
        return len(self.items)

    @add.validator
    def check(self, item: str) -> None:
        if not item:
            raise ValueError("empty item")

    @update
    async def break_it(self, why: str) -> NoReturn:
        raise ValueError(why)


@workflow
async def fails(number: int) -> None:
    await fetch("a")
    raise ValueError(f"no {number}")


@workflow
async def is_cancelled(number: int) -> None:
    await fetch(f"{number}")


@workflow
async def continues(number: int) -> None:
    await sleep(1)
    continue_as_new(number + 1)


def everything() -> Harness[Any]:
    """A run of `Everything`, to its end."""
    harness: Harness[Any] = Harness(Everything, 3, run_id="everything")
    messages = (ask("add", "tea", id="u-1"), ask("add", "", id="u-2"), ask("break_it", "so", id="u-3"))
    turn = harness.start(*messages)
    of_kind = {command.kind: command for command in turn.commands}
    task = next(command for command in turn.commands if command.name == "fetch")
    harness.activate(resolve(task, "page"))
    turn = harness.activate(resolve(of_kind["signal_external"]), resolve(of_kind["cancel_external"]))
    harness.activate(fire(turn.commands[-1]), cancelled(of_kind["start_child"]))
    harness.activate(resolve_promise("answer", "yes"))
    harness.activate(send("put", "milk", message_id="s-1"))
    return harness


def ending(code: Any, *jobs: Any) -> Harness[Any]:
    """A run of one of the three that end in another way."""
    harness: Harness[Any] = Harness(code, 3, run_id=code.name)
    harness.start()
    harness.activate(*jobs)
    return harness


CODE: dict[str, Any] = {
    "everything": Everything,
    "fails": fails,
    "is_cancelled": is_cancelled,
    "continues": continues,
}


def record(name: str) -> Harness[Any]:
    """Run it as it was recorded."""
    match name:
        case "everything":
            return everything()
        case "fails":
            return ending(fails, resolve(0, "page"))
        case "is_cancelled":
            return ending(is_cancelled, cancel("stop it"))
        case _:
            return ending(continues, fire(0))


def recorded(name: str) -> str:
    """The transcript of that run, as it was recorded."""
    return (FOLDER / f"{name}.json").read_text("utf-8")


def without_tracebacks(text: str) -> str:
    """A transcript without the tracebacks of its failures, which name files of one machine and do not count."""
    run = json.loads(text)
    for turn in run["turns"]:
        for command in turn["commands"]:
            for value in command.get("input", []):
                if isinstance(value, dict):
                    cast("dict[str, Any]", value).pop("traceback", None)
    return json.dumps(run, indent=2)
