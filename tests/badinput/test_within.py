"""Bad input inside a workflow is refused at the call, which orders nothing (section 6)."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from perdure import workflow
from perdure.testing import Harness
from tests.badinput.corpus import Case, cases
from tests.badinput.stage import WORDS, fault_of, given_to

CASES = cases("within.toml")


class Refused:
    """What one call inside a workflow came to."""

    def __init__(self) -> None:
        self.error: Exception | None = None


@pytest.mark.parametrize(("call", "wrong"), CASES, ids=[call for call, _ in CASES])
def test_bad_input_inside_a_workflow_is_refused_at_the_call(call: str, wrong: list[Case]) -> None:
    assert [fault for case in wrong if (fault := _fault(case))] == []


def _fault(case: Case) -> str | None:
    seen = Refused()

    @workflow
    async def attempt(seconds: float = 1) -> None:
        try:
            answer: Any = eval(case.call, {**WORDS, **given_to(case)})
            if inspect.isawaitable(answer):
                await answer
            elif hasattr(answer, "__aenter__"):
                async with answer:
                    pass
        except Exception as error:
            seen.error = error

    turn = Harness(attempt).start()
    ordered = [command.kind for command in turn.commands]
    if ordered != ["complete"]:
        return f"{case.name}: it has ordered {ordered}: {seen.error}"
    return fault_of(seen.error, case.error, case)
