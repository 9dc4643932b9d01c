"""Programs of timers on virtual time do what a model of time says, whatever they are."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.testing import VirtualClock, run_virtual, virtual_time
from tests.testing.loops import installed


@dataclass(frozen=True)
class Sleep:
    ms: int


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Program, ...]


@dataclass(frozen=True)
class Parallel:
    parts: tuple[Program, ...]


@dataclass(frozen=True)
class Within:
    ms: int
    part: Program


Program = Sleep | Sequence | Parallel | Within
Log = list[tuple[int, str]]

PROGRAMS = st.recursive(
    st.builds(Sleep, st.integers(0, 10**7)),
    lambda part: (
        st.builds(Sequence, st.lists(part, max_size=4).map(tuple))
        | st.builds(Parallel, st.lists(part, max_size=4).map(tuple))
        | st.builds(Within, st.integers(1, 10**7), part)
    ),
    max_leaves=12,
)


class TooClose(Exception):
    """An end and a time limit in the same millisecond: either may come first."""


def model(program: Program, start: int, limit: float, log: Log, path: str = "") -> float:
    """When a program ends that began then and is cut off at a limit (infinite if it is cut off), and what it logs."""
    match program:
        case Sleep(ms):
            if start + ms == limit:
                raise TooClose
            if start + ms > limit:
                return math.inf
            log.append((start + ms, path))
            return start + ms
        case Sequence(parts):
            at: float = start
            for number, part in enumerate(parts):
                at = model(part, int(at), limit, log, f"{path}.{number}")
                if at == math.inf:
                    break
            return at
        case Parallel(parts):
            return max(
                [start, *(model(part, start, limit, log, f"{path}|{number}") for number, part in enumerate(parts))]
            )
        case Within(ms, part):
            inner = start + ms
            if inner == limit:
                raise TooClose
            ended = model(part, start, min(limit, inner), log, path + "<")
            if ended < math.inf:
                return ended
            if limit < inner:
                return math.inf
            log.append((inner, path + "!"))
            return inner


async def real(program: Program, log: Log, clock: VirtualClock, zero: int, path: str = "") -> None:
    match program:
        case Sleep(ms):
            await asyncio.sleep(ms / 1000)
            log.append(((clock.now_us() - zero) // 1000, path))
        case Sequence(parts):
            for number, part in enumerate(parts):
                await real(part, log, clock, zero, f"{path}.{number}")
        case Parallel(parts):
            await asyncio.gather(
                *(real(part, log, clock, zero, f"{path}|{number}") for number, part in enumerate(parts))
            )
        case Within(ms, part):
            try:
                async with asyncio.timeout(ms / 1000):
                    await real(part, log, clock, zero, path + "<")
            except TimeoutError:
                log.append(((clock.now_us() - zero) // 1000, path + "!"))


@given(PROGRAMS, st.booleans())
def test_programs_of_timers_do_what_a_model_of_time_says(program: Program, own: bool) -> None:
    expected: Log = []
    try:
        model(program, 0, math.inf, expected)
    except TooClose:
        assume(False)
    log: Log = []

    async def main() -> None:
        with virtual_time() as clock:
            await real(program, log, clock, clock.now_us())

    (run_virtual if own else installed)(main())
    assert [at for at, _ in log] == sorted(at for at, _ in log)
    assert sorted(log) == sorted(expected)
