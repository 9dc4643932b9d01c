"""What the tests of messages and scopes share: commands as short text, and a harness that is evicted all the time."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from perdure import Failure, activity
from perdure.model.commands import Command
from perdure.model.jobs import AnyJob
from perdure.testing import Harness, Turn, evict

R = TypeVar("R")
Start = Callable[..., Harness[Any]]
FAILING = frozenset({"fail", "fail_update", "reject_update"})


@activity
async def act(name: str) -> str: ...


@activity(cancellation="wait")
async def waits(name: str) -> str: ...


@activity(cancellation="abandon")
async def abandons(name: str) -> str: ...


class EvictedHarness(Harness[R]):
    """A harness whose run is dropped before every activation, and rebuilt from its transcript."""

    def activate(self, *given: AnyJob, advance: float = 0) -> Turn:
        super().activate(evict())
        return super().activate(*given, advance=advance)


@contextmanager
def replayed(kind: type[Harness[Any]]) -> Generator[Start]:
    """Make harnesses of a kind; at the end each is replayed strictly, and must say the same once more."""
    made: list[Harness[Any]] = []

    def start(workflow: Any, *args: Any, **options: Any) -> Harness[Any]:
        maker: Any = kind
        made.append(maker(workflow, *args, **options))
        return made[-1]

    yield start
    for one in made:
        again = one.replay()
        recorded = [turn for turn in one.turns if turn.commands]
        assert [told(turn) for turn in again.turns if turn.commands] == [told(turn) for turn in recorded]
        assert (again.status, again.result) == (one.status, one.result)


def told(turn: Turn) -> list[str]:
    """The commands of a turn: `kind#seq name [input] @unit`, where `/` and what was not set is left out."""
    return [tell(command) for command in turn.commands]


def tell(command: Command) -> str:
    numbered = "" if command.seq is None else f"#{command.seq}"
    given = command.input
    if command.kind in FAILING:
        failure = msgspec.convert(given[0], Failure)
        given = [f"{failure.type}: {failure.message}"]
    parts = [command.kind + numbered, command.name or "", json.dumps(given) if given else ""]
    parts.append("" if command.unit == "/" else f"@{command.unit}")
    return " ".join(part for part in parts if part)


def asked(turn: Turn, kind: str = "schedule_activity") -> list[Command]:
    """The commands of one kind."""
    return [command for command in turn.commands if command.kind == kind]


def answers(turn: Turn) -> list[tuple[str, str, Any]]:
    """`(id, kind, value or the type of the error)` of every answer of a turn."""
    return [(one.id, one.kind, one.value if one.error is None else one.error.type) for one in turn.answers]
