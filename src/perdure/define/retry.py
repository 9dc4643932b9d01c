"""Retry policies, as people write them: kept with an activity, carried out by an engine (E4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from perdure import codec
from perdure.errors import InvalidValue

Duration = int | float | str | timedelta


@dataclass(frozen=True)
class Retry:
    """When a failed activity is tried again. `attempts` counts the first one; None is without limit.

    The wait is `initial`, then times `factor` up to `maximum`, give or take `jitter`. Failures of a type in
    `non_retryable` (exception classes or names) are final.
    """

    attempts: int | None = 3
    initial: Duration = 1
    factor: float = 2
    maximum: Duration = 60
    jitter: float = 0.1
    non_retryable: tuple[type[BaseException] | str, ...] = ()

    def __post_init__(self) -> None:
        if self.attempts is not None and not _is_number(self.attempts, at_least=1, whole=True):
            raise InvalidValue(f"Retry.attempts is a whole number from 1 on, or None, not {codec.shown(self.attempts)}")
        codec.duration_seconds(self.initial, "Retry.initial")
        codec.duration_seconds(self.maximum, "Retry.maximum")
        if not _is_number(self.factor, at_least=1):
            raise InvalidValue(f"Retry.factor is a number from 1 on, not {codec.shown(self.factor)}")
        if not _is_number(self.jitter, at_least=0) or self.jitter > 1:
            raise InvalidValue(f"Retry.jitter is a number from 0 to 1, not {codec.shown(self.jitter)}")
        named = cast("object", self.non_retryable)
        if not isinstance(named, tuple | list | set | frozenset) or not all(
            _names_error(one) for one in cast("Any", named)
        ):
            raise InvalidValue(
                'Retry.non_retryable holds exception classes and their names, as in (ValueError, "PaymentRefused"), '
                f"not {codec.shown(self.non_retryable)}"
            )

    def as_option(self) -> dict[str, Any]:
        """The policy as a command's option: plain JSON values."""
        return {
            "attempts": self.attempts,
            "initial": codec.duration_seconds(self.initial, "Retry.initial"),
            "factor": self.factor,
            "maximum": codec.duration_seconds(self.maximum, "Retry.maximum"),
            "jitter": self.jitter,
            "non_retryable": [one if isinstance(one, str) else one.__name__ for one in self.non_retryable],
        }


def _names_error(one: object) -> bool:
    return (isinstance(one, str) and bool(one)) or (isinstance(one, type) and issubclass(one, BaseException))


def _is_number(value: object, *, at_least: float, whole: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return False
    return at_least <= value < float("inf")
