"""Resuming: where the next attempt of a run goes on, by its stage and by what became of its mutation (L3, L7).

The stage says how far a run came, the mutation what it did to the world outside; only the latter decides, because a
mutation may have been tried and have failed for certain.
"""

from __future__ import annotations

from typing import Literal, get_args

from perdure.errors import InvalidValue

Stage = Literal["preparing", "prepared", "mutating", "mutated", "emitting", "committed"]
Mutation = Literal["none", "success", "failure", "skipped", "uncertain"]
Place = Literal["preparing", "emitting", "reconcile"]

STAGES: tuple[Stage, ...] = get_args(Stage)
MUTATIONS: tuple[Mutation, ...] = get_args(Mutation)

_PLACES: dict[str, Place] = {
    "none": "preparing",  # nothing was done: start over, with what is pending by then
    "failure": "preparing",  # it is certain that nothing happened
    "success": "emitting",  # it happened: forward only
    "skipped": "emitting",  # a person has given it up: its events are skipped, forward only
    "uncertain": "reconcile",  # neither forth nor back before that is settled
}


def goes_on_at(stage: str, mutation: str | None = "none") -> Place:
    """Where a retry begins; `"reconcile"` while it is not known whether the mutation happened. `InvalidValue`."""
    mutation = mutation or "none"
    if stage not in STAGES or stage == "committed":
        raise InvalidValue(f"no retry goes on from stage {stage!r}: it is one of {', '.join(STAGES[:-1])}")
    if mutation not in MUTATIONS:
        raise InvalidValue(f"{mutation!r} is no outcome of a mutation: it is one of {', '.join(MUTATIONS)}")
    return _PLACES[mutation]
