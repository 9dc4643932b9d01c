"""Transcripts: a whole run as JSON that people can read and keep (format 1).

Written by `Harness.transcript`, replayed by `Harness.replay_transcript`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from perdure import policies
from perdure.errors import InvalidValue
from perdure.model.commands import KINDS, NOTHING
from perdure.model.turns import TurnRecord

FORMAT = 1


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
        turns = self.turns if sources else tuple(_without_sources(turn) for turn in self.turns)
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


def _without_sources(turn: TurnRecord) -> TurnRecord:
    commands = tuple(msgspec.structs.replace(command, where=None) for command in turn.commands)
    return msgspec.structs.replace(turn, commands=commands)


def _check(read: _Written) -> None:
    if not isinstance(msgspec.json.decode(read.encoded), list):
        raise InvalidValue("this is no transcript: `input` is a list of arguments")
    policies.from_log([choice for turn in read.turns for choice in turn.choices])
    for number, turn in enumerate(read.turns):
        if turn.turn != number:
            raise InvalidValue(f"this is no transcript: turn {number} is numbered {turn.turn}; turns count up from 0")
        if turn.now.tzinfo is None:
            raise InvalidValue(f"this is no transcript: the time of turn {number} has no zone")
        for command in turn.commands:
            if command.kind not in KINDS:
                raise InvalidValue(f"this is no transcript: turn {number} has a command of kind {command.kind!r}")
