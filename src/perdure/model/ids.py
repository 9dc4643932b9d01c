"""Ids: the grammar that every name and id obeys, and the ids that are derived instead of drawn.

Used by define (names), kernel (operation ids, K8) and testing (run ids).
"""

from __future__ import annotations

import uuid
from hashlib import sha1
from unicodedata import category

from perdure.errors import InvalidValue

ID_LENGTH_MAX = 512
JOINERS = frozenset("\u200c\u200d")  # invisible, but emoji and many scripts are spelt with them
VARIANTS = {f"{digit:x}": f"{8 + digit % 4:x}" for digit in range(16)}  # of the first digit of a UUID's fourth group
RUN_ID_NAMESPACE = uuid.UUID("6f0c9d52-6c5b-5d0e-9a5c-70657264757e")


def check_id(text: object, what: str) -> str:
    """Return `text` if it can be an id or a name; raise `InvalidValue` that says what is wrong with it."""
    if not isinstance(text, str):
        raise InvalidValue(f"{what} must be text, not {type(text).__name__}")
    if not text or text.isspace():
        raise InvalidValue(f"{what} is empty: give it at least one visible character")
    if len(text) > ID_LENGTH_MAX:
        raise InvalidValue(f"{what} has {len(text)} characters; at most {ID_LENGTH_MAX} are allowed")
    if not text.isprintable():
        for position, character in enumerate(text):
            if not character.isprintable() and category(character) != "Zs" and character not in JOINERS:
                found = f"the control character {character!r} at position {position}"
                raise InvalidValue(f"{what} holds {found}: take it out")
    return text


def run_uuid(run_id: str) -> uuid.UUID:
    """A run id is a UUID; any other text stands for its UUIDv5."""
    check_id(run_id, "a run id")
    try:
        return uuid.UUID(run_id)
    except ValueError:
        return uuid.uuid5(RUN_ID_NAMESPACE, run_id)


def operation_id(run_id: uuid.UUID, seq: int) -> str:
    """The id under which the outside sees an activity or a child (K8): the same on every replay.

    It is `str(uuid.uuid5(run_id, str(seq)))`, without the objects in between: every activity of every replay needs one.
    """
    digest = sha1(run_id.bytes + b"%d" % seq, usedforsecurity=False).hexdigest()
    variant = VARIANTS[digest[16]]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"
