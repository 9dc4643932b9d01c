"""Matching: what a turn emits against what its record holds (K11), strictly or by names.

Used by kernel.executor, command by command; what a mismatch looks like to people is kernel.report's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from perdure.errors import NondeterminismError
from perdure.kernel import report
from perdure.model.commands import CANCELLING, SEQUENCED, TERMINAL, Command
from perdure.model.turns import KeptChoice, TurnRecord

UPDATE_ANSWERS = frozenset({"accept_update", "reject_update", "complete_update", "fail_update"})

# What `names` does not look at: who gets which answer, and how the run ends.
UNNAMED = TERMINAL | CANCELLING | {"set_attributes", "publish", "set_patch"} | UPDATE_ANSWERS


@dataclass(slots=True)
class Story:
    """What a report names besides the two commands."""

    workflow: str
    run_id: str
    surroundings: Mapping[str, str] = field(default_factory=dict[str, str])


class Strict:
    """Every recorded command is met exactly once, in order, alike in all that counts (K10)."""

    __slots__ = ("_before", "_mismatch", "_position", "_record", "_story", "_turn", "_turns")

    def __init__(self, story: Story, turns: Sequence[TurnRecord] = ()) -> None:
        self._story = story
        self._turns = turns
        self._turn = 0
        self._record: TurnRecord | None = None
        self._position = 0
        self._before: Counter[str] = Counter()
        self._mismatch: tuple[int, Command, BaseException | None] | None = None

    def begin(self, turn: int, record: TurnRecord | None) -> None:
        """A turn begins; without a record it is a live one."""
        self._turn = turn
        self._record = record
        self._position = 0
        self._mismatch = None

    @property
    def replaying(self) -> bool:
        """Whether this turn has a record to meet."""
        return self._record is not None

    def ahead(self, kind: str, name: str | None) -> Command | None:
        """The recorded command that comes next, if it is of that kind and name."""
        recorded = self._commands()
        if self._position < len(recorded) and self._mismatch is None:
            command = recorded[self._position]
            if command.kind == kind and command.name == name:
                return command
        return None

    def stands_in_record(self, kind: str, name: str) -> bool:
        """Whether this turn's record holds such a command anywhere."""
        return any(command.kind == kind and command.name == name for command in self._commands())

    def rejected_update(self, update_id: str) -> Command | None:
        """The recorded rejection of an update, if it was rejected."""
        for command in self._commands():
            if command.kind == "reject_update" and command.options.get("id") == update_id:
                return command
        return None

    @property
    def choices(self) -> tuple[KeptChoice, ...]:
        """What the policy chose in the recorded turn; all of it is chosen again."""
        return () if self._record is None else self._record.choices

    @property
    def doomed(self) -> bool:
        """Whether a command did not match. The turn runs on, so that the report can say what came instead."""
        return self._mismatch is not None

    def meet(self, command: Command, emitted: Sequence[Command], error: BaseException | None = None) -> None:
        """Meet the next recorded command. If `command` is not it, the turn is doomed, and `end` raises the report."""
        if self._mismatch is not None:
            return
        recorded = self._commands()
        if self._position >= len(recorded) or not report.same_command(recorded[self._position], command):
            self._mismatch = (len(emitted), command, error)
        else:
            self._position += 1

    def mismatch(self, emitted: Sequence[Command]) -> NondeterminismError:
        """The report of a doomed turn."""
        assert self._mismatch is not None
        at, command, error = self._mismatch
        scene = replace(self._scene(emitted[:at]), following=tuple(emitted[at + 1 :]))
        return report.mismatch(scene, command, error)

    def end(self, emitted: Sequence[Command]) -> None:
        """The turn is over: nothing recorded may be left."""
        if self._mismatch is not None:
            raise self.mismatch(emitted)
        if self._position < len(self._commands()):
            raise report.mismatch(self._scene(emitted), None)
        for command in emitted:
            self._before[command.kind] += 1

    def live_seq(self, seq: int) -> int:
        """The seq, in this run of the code, of the operation that the record calls `seq`."""
        return seq

    def unknown(
        self, job: str, seq: int, emitted: Sequence[Command], asked: Command | None = None
    ) -> NondeterminismError:
        """The report of an answer to something that was never asked for, or that is of another kind: `asked`."""
        return report.unknown_answer(self._scene(emitted), job, seq, asked)

    def _commands(self) -> tuple[Command, ...]:
        return () if self._record is None else self._record.commands

    def _scene(self, emitted: Sequence[Command]) -> report.Scene:
        return report.Scene(
            workflow=self._story.workflow,
            run_id=self._story.run_id,
            turn=self._turn,
            recorded=self._commands(),
            position=self._position,
            emitted=tuple(emitted),
            now=None if self._record is None else self._record.now,
            surroundings=self._story.surroundings,
            ordinals=self._before,
            upcoming=[turn.commands for turn in self._turns if turn.turn > self._turn],
        )


class Names(Strict):
    """Seed 001's rule: the n-th call of a kind meets the n-th recorded of that kind, over the whole run, by name.

    So kinds may be reordered against each other, and a run may stop short or go on. Answers find their operation
    by kind and ordinal, because the numbers of the record need not be those of the run.
    """

    __slots__ = ("_live", "_met", "_misnamed", "_recorded", "_seqs")

    def __init__(self, story: Story, turns: Sequence[TurnRecord]) -> None:
        super().__init__(story, turns)
        self._recorded: dict[str, list[Command]] = {}
        self._met: Counter[str] = Counter()
        self._seqs: dict[int, tuple[str, int]] = {}
        self._live: dict[tuple[str, int], int] = {}
        self._misnamed: NondeterminismError | None = None
        for turn in turns:
            for command in turn.commands:
                if command.kind not in UNNAMED:
                    of_kind = self._recorded.setdefault(_group(command), [])
                    if command.kind in SEQUENCED and command.seq is not None:
                        self._seqs[command.seq] = (_group(command), len(of_kind))
                    of_kind.append(command)

    @property
    def choices(self) -> tuple[KeptChoice, ...]:
        return ()  # a run may stop short

    @property
    def doomed(self) -> bool:
        return self._misnamed is not None

    def mismatch(self, emitted: Sequence[Command]) -> NondeterminismError:
        assert self._misnamed is not None
        return self._misnamed

    def ahead(self, kind: str, name: str | None) -> Command | None:
        if not self.replaying:
            return None
        if kind in UNNAMED:
            return next((command for command in self._commands() if (command.kind, command.name) == (kind, name)), None)
        of_kind = self._recorded.get(kind, [])
        ordinal = self._met[kind]
        return of_kind[ordinal] if ordinal < len(of_kind) and of_kind[ordinal].name == name else None

    def meet(self, command: Command, emitted: Sequence[Command], error: BaseException | None = None) -> None:
        if command.kind in UNNAMED:
            return
        group = _group(command)
        ordinal = self._met[group]
        self._met[group] += 1
        if command.seq is not None:
            self._live[(group, ordinal)] = command.seq
        of_kind = self._recorded.get(group, [])
        if ordinal < len(of_kind):
            recorded = of_kind[ordinal]
            if (recorded.kind, recorded.name) != (command.kind, command.name):
                at_it = replace(self._scene(()), recorded=of_kind, position=ordinal, ordinals={}, upcoming=())
                self._misnamed = self._misnamed or report.mismatch(at_it, command, error)

    def end(self, emitted: Sequence[Command]) -> None:
        if self._misnamed is not None:
            raise self._misnamed

    def live_seq(self, seq: int) -> int:
        """-1: the run has not asked for it (yet)."""
        known = self._seqs.get(seq)
        return -1 if known is None else self._live.get(known, -1)


def _group(command: Command) -> str:
    return "state" if command.kind in ("set_state", "clear_state") else command.kind
