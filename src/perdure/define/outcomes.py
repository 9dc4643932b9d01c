"""Outcomes: the words with which an author says what became of a call to the outside (L3, L7, L8).

Raised by what does the call, and by what is asked about it afterwards; read by engine (activities with `effect="ask"`)
and by pipelines. Any other exception says nothing: the outcome is unknown then, and never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.errors import PerdureError


class NotApplied(PerdureError):
    """It did not happen, for good: the other side refused it, say."""


class Transient(PerdureError):
    """It did not happen this time, and may the next: a limit of requests, an outage."""


class NeedsApproval(PerdureError):
    """It did not happen, and will not before a person has done something: an expired login, a missing permission."""


@dataclass(frozen=True, slots=True)
class Happened:
    """It did happen; `result` is what it gave, where that is known."""

    result: Any = None


def not_applied(reason: object = "") -> NotApplied:
    """Raise it: what was asked for certainly did not happen, and shall not be tried again as it is."""
    return NotApplied(str(reason))


def transient(reason: object = "") -> Transient:
    """Raise it: it certainly did not happen, and another try later may succeed."""
    return Transient(str(reason))


def needs_approval(reason: object = "") -> NeedsApproval:
    """Raise it: it certainly did not happen, and a person has to act first; the reason is shown to them."""
    return NeedsApproval(str(reason))


def happened(result: Any = None) -> Happened:
    """Return it from `reconcile`: it happened, also where there is no result to give."""
    return Happened(result)
