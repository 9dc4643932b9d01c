"""The example of seed 000: two branches of two activities each."""

from __future__ import annotations

from perdure import parallel, workflow
from tests.kernel.telling import act


async def two_steps(name: str) -> str:
    """One branch."""
    await act(f"{name}1")
    await act(f"{name}2")
    return name


@workflow
async def two_branches() -> list[str]:
    """The branches a and b."""
    return await parallel(two_steps("a"), two_steps("b"))
