"""Stubs: only a body that is literally `...` is one; an activity that really does nothing is not."""

from __future__ import annotations

import asyncio
import functools
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Activity, UsageError, activity
from perdure.define.registry import Registry


@activity
def bare(order: str) -> str: ...


@activity(timeout=5)
async def told(
    order: str,
) -> str:
    """Served by the billing team."""
    ...  # noqa: PIE790


@activity
def passes(order: str) -> None:
    pass


@activity
async def returns(order: str) -> None:
    return None


@activity
def only_described(order: str) -> None:
    """Nothing has to be done."""


@activity
def asserts(order: str) -> None:
    assert ... is not None


@pytest.mark.parametrize("stub", [bare, told], ids=lambda one: one.name)
def test_a_body_of_dots_is_a_stub(stub: Activity[..., Any]) -> None:
    """api.md: a stub whose body is `...`."""
    assert stub.is_stub
    with pytest.raises(UsageError, match="is a stub"):
        Registry((), [stub])
    with pytest.raises(UsageError, match="is a stub"):
        asyncio.run(_call(stub))


@pytest.mark.parametrize("real", [passes, returns, only_described, asserts], ids=lambda one: one.name)
def test_an_activity_that_does_nothing_is_none(real: Activity[..., Any]) -> None:
    assert not real.is_stub
    assert Registry((), [real]).activities == {real.name: real}
    assert asyncio.run(_call(real)) is None


def test_where_there_is_no_source_it_is_none() -> None:
    made: dict[str, Callable[..., Any]] = {}
    exec("def sourceless(): ...", made)
    assert not Activity(made["sourceless"], {}).is_stub


def test_the_source_is_found_in_any_file(tmp_path: Path) -> None:
    source = textwrap.dedent("""
        if True:
            def nested(order):
                # for another team
                ...
            def real(order):
                pass
    """)
    path = tmp_path / "flow.md"
    path.write_text(source)
    made: dict[str, Callable[..., Any]] = {}
    exec(compile(source, str(path), "exec"), made)
    assert Activity(made["nested"], {}).is_stub
    assert not Activity(made["real"], {}).is_stub


def test_what_wraps_a_stub_is_none() -> None:
    def stub(order: str) -> str: ...

    @functools.wraps(stub)
    def logged(order: str) -> str:
        return order.upper()

    assert not Activity(logged, {}).is_stub


async def _call(one: Activity[..., Any]) -> Any:
    return await one("o-1")
