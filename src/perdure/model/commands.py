"""Commands: what a turn decides, one record for every kind.

Made by the kernel, kept in the turn's record, carried out by an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

# With a sequence number of their own: they can be answered or cancelled.
SEQUENCED = frozenset(
    {"schedule_activity", "start_timer", "start_child", "signal_external", "cancel_external", "create_promise"}
)
# With the sequence number of what they cancel.
CANCELLING = frozenset({"cancel_activity", "cancel_timer", "cancel_child"})
# Without one.
UNSEQUENCED = frozenset(
    {
        "set_patch",
        "set_state",
        "clear_state",
        "publish",
        "set_attributes",
        "publish_event",
        "record_side_effect",
        "record_choice",
        "accept_update",
        "reject_update",
        "complete_update",
        "fail_update",
    }
)
# The last one of a run.
TERMINAL = frozenset({"complete", "fail", "cancel", "continue_as_new"})
KINDS = SEQUENCED | CANCELLING | UNSEQUENCED | TERMINAL

# No input at all. A constant, because a record leaves out what is identical with its default.
NOTHING = msgspec.Raw(b"")


class Command(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One decision of a turn. `encoded` and `encoded_kwargs` are JSON as it is stored; `input` and `kwargs` read it."""

    kind: str
    unit: str
    seq: int | None = None
    name: str | None = None
    encoded: msgspec.Raw = msgspec.field(default=NOTHING, name="input")
    encoded_kwargs: msgspec.Raw = msgspec.field(default=NOTHING, name="kwargs")
    options: dict[str, Any] = {}
    where: tuple[str, int] | None = msgspec.field(default=None, name="source")

    def __repr__(self) -> str:
        numbered = "" if self.seq is None else f" #{self.seq}"
        named = "" if self.name is None else f" {self.name}"
        given = "" if self.encoded is NOTHING else bytes(self.encoded).decode()
        more = "" if self.encoded_kwargs is NOTHING else f" {bytes(self.encoded_kwargs).decode()}"
        chosen = f" {self.options}" if self.options else ""
        return f"<{self.kind}{numbered}{named} {given}{more}{chosen} in {self.unit}>"

    @property
    def input(self) -> list[Any]:
        """The positional arguments (or the one value) as plain JSON values."""
        return [] if self.encoded is NOTHING else msgspec.json.decode(self.encoded)

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """The keyword-only arguments as plain JSON values."""
        return {} if self.encoded_kwargs is NOTHING else msgspec.json.decode(self.encoded_kwargs)

    @property
    def source(self) -> str | None:
        """The line that emitted it, as `file:line`; None where the record does not hold it."""
        return None if self.where is None else f"{self.where[0]}:{self.where[1]}"
