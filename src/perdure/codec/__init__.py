"""Values ↔ JSON: the one road that every value takes into and out of a run (K20).

Used by kernel, define, testing and everything above; knows the model and the errors, and does no I/O.

Writing (`encoding`) walks a value first (`lowering`): what JSON cannot hold without loss is refused
at the call with `InvalidValue`, and the message names the path inside the value (section 6). Reading
(`decoding`) makes the annotated type of it; what msgspec cannot read itself is taken apart piece by
piece (`converting`).
"""

from perdure.codec.attributes import encode_attributes
from perdure.codec.decoding import decode, decode_arguments, plain
from perdure.codec.durations import duration_seconds
from perdure.codec.encoding import EMPTY_ARGUMENTS, NULL, encode, encode_arguments, same
from perdure.codec.nearby import note_local_classes, words_of
from perdure.codec.paths import shown

__all__ = [
    "EMPTY_ARGUMENTS",
    "NULL",
    "decode",
    "decode_arguments",
    "duration_seconds",
    "encode",
    "encode_arguments",
    "encode_attributes",
    "note_local_classes",
    "plain",
    "same",
    "shown",
    "words_of",
]
