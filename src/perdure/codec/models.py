"""Models: pydantic's classes, known by what they offer and never imported.

Used by codec.lowering (`dump`) and codec.converting (`validate`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from perdure.codec.paths import Misfit, Refused, key_step, name_of, shown

_DEPTH_MAX = 200


def is_model(kind: Any) -> bool:
    """Whether this is a pydantic model's class; pydantic's dataclasses are read as dataclasses."""
    return isinstance(kind, type) and hasattr(kind, "model_dump") and hasattr(kind, "__pydantic_serializer__")


def dump(model: object) -> Any:
    """The model as plain JSON values, in pydantic's own form, so that `validate` reads it back.

    `Refused` where pydantic would lose something without a word: a set's order, NaN, a secret, a value
    that does not fit its field, keys that become the same text.
    """
    serializer: Any = cast(Any, type(model)).__pydantic_serializer__
    try:
        # First as Python values: in JSON a set is a list already, and in the order of the hash seed.
        as_python = serializer.to_python(model, mode="python", by_alias=False, round_trip=True, warnings="error")
    except Exception as problem:
        raise _refusal(model, problem) from problem
    _look_through(as_python, 0)
    try:
        return serializer.to_python(model, mode="json", by_alias=False, round_trip=True, warnings="error")
    except Exception as problem:
        raise _refusal(model, problem) from problem


def validate(kind: Any, text: bytes) -> Any:
    """The model that this JSON stands for; `Misfit` names the field that does not fit."""
    validator = kind.__pydantic_validator__
    # Written by field names, because the alias for writing may be another than the one for reading; but JSON
    # from outside has aliases. A pydantic before 2.11 takes names only where the model says so.
    named = (
        {"by_alias": True, "by_name": True} if "by_name" in (validator.validate_json.__text_signature__ or "") else {}
    )
    try:
        return validator.validate_json(text, **named)
    except Exception as problem:
        raise _misfit(problem) from problem


def _misfit(problem: Exception) -> Misfit:
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return Misfit(f"{name_of(type(problem))}: {problem}")
    first = cast("list[dict[str, Any]]", errors(include_url=False, include_input=False, include_context=False))[0]
    steps = tuple(f"[{step}]" if isinstance(step, int) else key_step(step) for step in first["loc"])
    text = str(first["msg"])
    return Misfit(text[:1].lower() + text[1:], steps)


def _refusal(model: Any, problem: Exception) -> Refused:
    reason = " ".join(str(problem).split())
    hint = '; set ser_json_bytes and val_json_bytes to "base64"' if isinstance(problem, UnicodeError) else ""
    return Refused(f"{name_of(type(model))} is not supported as it stands: {reason}{hint}")


def _look_through(value: Any, depth: int) -> None:
    """Only what JSON would hide. Types that are pydantic's own business pass."""
    kind = cast("type[Any]", type(value))
    if depth > _DEPTH_MAX:
        raise Refused(f"{name_of(kind)} is not supported more than {_DEPTH_MAX} levels deep")
    if issubclass(kind, set | frozenset):
        raise Refused(f"{name_of(kind)} is not supported; use a list")
    if issubclass(kind, float) and not math.isfinite(value):
        raise Refused(f"float {float.__repr__(value)} is not supported; use None or text")
    if hasattr(kind, "get_secret_value"):
        raise Refused(f"{name_of(kind)} is not supported; it would be written as asterisks")
    if issubclass(kind, Mapping):
        _look_at_keys(cast("Mapping[Any, Any]", value))
        for key, item in cast("Mapping[Any, Any]", value).items():
            try:
                _look_through(item, depth + 1)
            except Refused as refused:
                raise refused.within(value, key_step(key)) from None
    elif issubclass(kind, list | tuple):
        for index, item in enumerate(cast("list[Any]", value)):
            try:
                _look_through(item, depth + 1)
            except Refused as refused:
                raise refused.within(value, f"[{index}]") from None


def _look_at_keys(value: Mapping[Any, Any]) -> None:
    if len(set(map(type, value))) < 2:
        return
    texts: dict[str, Any] = {}
    for key in value:
        text = str(key)
        if text in texts:
            raise Refused(
                f"dict is not supported with the keys {shown(texts[text])} and {shown(key)}: JSON has one text for both"
            )
        texts[text] = key
