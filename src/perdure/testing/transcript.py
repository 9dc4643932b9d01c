"""Transcripts: a whole run as JSON that people can read and keep (format 1).

Written by `Harness.transcript`, replayed by `Harness.replay_transcript`.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from perdure import policies
from perdure.codec.durations import SECONDS_MAX
from perdure.errors import Failure, InvalidValue
from perdure.model.commands import CANCELLING, KINDS, NOTHING, SEQUENCED, Command
from perdure.model.jobs import Cancelled, Failed, Fired, Recorded, Resolved, Signalled, Started, UpdateRequested
from perdure.model.turns import KeptChoice, TurnRecord
from perdure.policies.choices import in_full

FORMAT = 1
ANSWERS_TO_UPDATES = frozenset({"accept_update", "reject_update", "complete_update", "fail_update"})
NAMED = ANSWERS_TO_UPDATES | frozenset(
    {"schedule_activity", "start_child", "signal_external", "create_promise", "set_patch", "set_state"}
    | {"clear_state", "publish_event", "record_side_effect"}
)
# The kinds that hold one value, and what it is.
VALUES: dict[str, Any] = {
    **dict.fromkeys(
        ("set_state", "publish", "publish_event", "record_side_effect", "complete_update", "complete"), Any
    ),
    **dict.fromkeys(("fail", "fail_update", "reject_update"), Failure),
    "start_timer": float,
    "set_attributes": dict[str, Any],
    "record_choice": int,
}


class Transcript(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a run was given and what it decided, turn by turn."""

    workflow: str
    run_id: str
    seed: int
    encoded: msgspec.Raw = msgspec.field(name="input")
    keywords: msgspec.Raw = msgspec.field(name="kwargs", default=NOTHING)
    match: Literal["strict", "names"] = "strict"
    turns: tuple[TurnRecord, ...]

    def to_json(self, *, sources: bool = False) -> str:
        """The transcript as text; with `sources`, each command's source line is kept."""
        turns = tuple(_written(turn, sources=sources) for turn in self.turns)
        written = _Written(
            format=FORMAT,
            workflow=self.workflow,
            run_id=self.run_id,
            seed=self.seed,
            encoded=self.encoded,
            keywords=self.keywords,
            match=self.match,
            turns=turns,
        )
        return msgspec.json.format(msgspec.json.encode(written), indent=2).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Transcript:
        """Read a transcript; `InvalidValue` (`BadLog`: its choices) names what is wrong with the text."""
        if not isinstance(cast(object, text), str | bytes):
            raise InvalidValue(f"from_json() takes text, not {type(text).__name__}")
        try:
            found = msgspec.json.decode(text, type=_Heading)
            if found.format != FORMAT:
                raise InvalidValue(
                    f"this transcript has format {found.format}; this version of Perdure reads format {FORMAT}"
                )
            # What is kept as it stands must look as it did when it was recorded, not as it was laid out for people.
            read = msgspec.json.decode(msgspec.json.format(text, indent=-1), type=_Written)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidValue(f"this is no transcript: {error}") from error
        except RecursionError as error:
            raise InvalidValue("this is no transcript: it is nested too deeply") from error
        _check(read)
        return cls(
            workflow=read.workflow,
            run_id=read.run_id,
            seed=read.seed,
            encoded=read.encoded,
            keywords=read.keywords,
            match=read.match,
            turns=read.turns,
        )


class _Heading(msgspec.Struct):
    format: int


class _Written(msgspec.Struct, omit_defaults=True, kw_only=True):
    format: int
    workflow: str
    run_id: str
    seed: int
    encoded: msgspec.Raw = msgspec.field(name="input")
    keywords: msgspec.Raw = msgspec.field(name="kwargs", default=NOTHING)
    match: Literal["strict", "names"]
    turns: tuple[TurnRecord, ...]


def _written(turn: TurnRecord, *, sources: bool) -> TurnRecord:
    """As people read it: each choice with its whole set, no line of code unless it is wanted."""
    commands = turn.commands if sources else tuple(msgspec.structs.replace(one, where=None) for one in turn.commands)
    choices = tuple(KeptChoice(one.step, one.enabled, one.chosen) for one in in_full(turn.choices))
    return msgspec.structs.replace(turn, commands=commands, choices=choices)


def _check(read: _Written) -> None:
    _expect(_is(read.encoded, list), "`input` is a list of arguments")
    _expect(_is(read.keywords, dict), "`kwargs` is an object of arguments by name")
    policies.from_log([(one.step, one.enabled, one.chosen) for turn in read.turns for one in turn.choices])
    for number, turn in enumerate(read.turns):
        _expect(turn.turn == number, f"turn {number} is numbered {turn.turn}; turns count up from 0")
        _expect(turn.now.tzinfo is not None, f"the time of turn {number} has no zone")
        for position, job in enumerate(turn.jobs):
            _check_job(job, f"turn {number}, job {position}", first=number == position == 0)
        for position, command in enumerate(turn.commands):
            _check_command(command, f"turn {number}, command {position}")
    _expect(not read.turns or bool(read.turns[0].jobs), "turn 0 has no job; a run begins with a job of kind started")


def _check_job(job: Recorded, place: str, *, first: bool) -> None:
    _expect(isinstance(job, Started) == first, f"{place}: a run begins with the one job of kind started")
    if isinstance(job, Signalled | UpdateRequested):
        _expect(_is(job.encoded, list), f"{place}: `input` is a list of arguments")
    elif isinstance(job, Resolved | Failed | Cancelled | Fired):
        _expect(job.seq >= 0, f"{place}: `seq` counts up from 0, and this is {job.seq}")


def _check_command(command: Command, place: str) -> None:
    kind = command.kind
    _expect(kind in KINDS, f"{place}: there is no kind {kind!r}")
    numbered = kind in SEQUENCED | CANCELLING
    _expect(numbered == (command.seq is not None), f"{place}: {kind} has {'a' if numbered else 'no'} `seq`")
    _expect(kind not in NAMED or command.name is not None, f"{place}: {kind} has a `name`")
    _expect(_is(command.encoded, list), f"{place}: `input` is a list of values")
    _expect(_is(command.encoded_kwargs, dict), f"{place}: `kwargs` is an object of arguments by name")
    reads = VALUES.get(kind)
    if reads is not None:
        _expect(bool(command.input), f"{place}: {kind} has one value as its `input`")
        try:
            msgspec.convert(command.input[0], reads)
        except msgspec.ValidationError as error:
            raise InvalidValue(f"this is no transcript: {place}: `input[0]` of {kind}: {error}") from error
    if kind == "start_timer":
        _expect(0 <= command.input[0] <= SECONDS_MAX, f"{place}: the seconds of a timer are 0 to {SECONDS_MAX}")


def _is(raw: msgspec.Raw, kind: type) -> bool:
    return not bytes(raw) or isinstance(msgspec.json.decode(raw), kind)


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidValue(f"this is no transcript: {what}")
