"""Random runs: answers, in the order that was drawn, what a random workflow asks for, until it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure import ApplicationError, UsageError
from perdure.model.commands import SEQUENCED, Command
from perdure.testing import Harness, Turn, cancel, cancelled, fail, fire, query, resolve, signal, update
from tests.kernel.random_workflows import MESSAGES, Node, Served, play

Batches = Sequence[Sequence[tuple[str, int]]]
TURNS_MAX = 150


def harness_of(plan: Node, handler: Node | None, **options: Any) -> Harness[Any]:
    """The random workflow that plays this plan."""
    return Harness(play, plan, **options) if handler is None else Harness(Served, plan, handler, **options)


def workflow_of(handler: Node | None) -> Any:
    return play if handler is None else Served


class Run:
    """A random workflow, and what it has open."""

    def __init__(self, plan: Node, handler: Node | None = None, **options: Any) -> None:
        self.harness = harness_of(plan, handler, **options)
        self.open: dict[int, Command] = {}
        self.sent = 0
        self._note(self.harness.start())

    def drive(self, batches: Batches) -> Harness[Any]:
        """Answer as drawn, then the oldest first, until the run has ended; one that waits for nothing is cancelled."""
        for batch in batches:
            if not self.harness.done:
                self.tell([job for kind, which in batch if (job := self._job(kind, which)) is not None])
        self.settle()
        return self.harness

    def settle(self) -> None:
        """Answer the oldest first; send every message once; then cancel."""
        rest = [[signal(name, 0) for name in MESSAGES], [cancel("enough")]]
        while not self.harness.done:
            if not self.open and not rest:
                raise AssertionError(f"the run does not end: {self.harness.waiting()}")
            assert len(self.harness.turns) < TURNS_MAX
            self.tell([self._answer(next(iter(self.open)), "resolve")] if self.open else rest.pop(0))

    def tell(self, given: Sequence[Any]) -> None:
        """One turn; a promise that has been settled already is not settled again."""
        try:
            turn = self.harness.activate(*given) if given else None
        except UsageError:
            settled = ("PromiseResolved", "PromiseRejected")
            self.tell([job for job in given if type(job).__name__ not in settled])
        else:
            if turn is not None:
                self._note(turn)

    def _note(self, turn: Turn) -> None:
        for command in turn.commands:
            if command.kind in SEQUENCED and command.seq is not None:
                self.open[command.seq] = command
            elif command.kind == "cancel_timer" and command.seq is not None:
                self.open.pop(command.seq, None)

    def _job(self, kind: str, which: int) -> Any:
        self.sent += 1
        if kind == "signal":
            return signal(MESSAGES[which % 3], self.sent)
        if kind == "update":
            return update("add" if which == 1 else "ask", which, id=f"update {self.sent // 2}")
        if kind == "query":
            return query("bumps")
        return self._answer(list(self.open)[which % len(self.open)], kind) if self.open else None

    def _answer(self, seq: int, kind: str) -> Any:
        command = self.open.pop(seq)
        if command.kind == "start_timer":
            return fire(command)
        if kind == "fail":
            return fail(command, ApplicationError("no", type="No"))
        if kind == "ended" and command.kind in ("schedule_activity", "start_child"):
            return cancelled(command)
        nothing = command.kind in ("signal_external", "cancel_external")
        return resolve(command, None if nothing else [command.name, seq])


def story(turns: Sequence[Turn]) -> bytes:
    """All that the turns decided, as bytes, source lines included; queries and evictions have left nothing."""
    told = [
        {"turn": turn.number, "now": turn.now, "commands": turn.commands, "choices": turn.choices}
        for turn in turns
        if turn.commands or turn.choices
    ]
    return msgspec.json.encode(told)
