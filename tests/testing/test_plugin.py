"""The pytest plugin runs `async def` tests on virtual time that nobody else runs, and leaves all others alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.docs.test_with_pytest import BLOCKS

WORKFLOW = """
import asyncio
import pytest
from perdure import receive, sleep, workflow

@workflow
async def month() -> str:
    await sleep("30d")
    return "passed"

@workflow
async def approval() -> bool:
    return await receive("approve", bool)
"""


def run_tests(folder: Path, text: str, *options: str) -> tuple[dict[str, str], str]:
    """Run a test file of somebody's project, warnings as errors: the outcome of each test, and the whole output."""
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-v", "-W", "error", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    done = subprocess.run(
        [*command, *options, "test_it.py"], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    outcomes = re.findall(r"^test_it\.py::(\S+) (PASSED|FAILED|ERROR)", done.stdout, re.MULTILINE)
    return dict(outcomes), done.stdout + done.stderr


def test_the_tests_of_an_engine_on_the_page_pass(tmp_path: Path) -> None:
    (shown,) = [block for block in BLOCKS if "async def test_who_pays" in block]
    outcomes, output = run_tests(tmp_path, BLOCKS[0] + "import asyncio\n" + shown)
    assert list(outcomes.values()) == ["PASSED", "PASSED"], output


ASYNC_TESTS = """
from hypothesis import HealthCheck, given, settings, strategies as st
from perdure.testing import VirtualLoop

@pytest.fixture
def number():
    return 7

class TestInAClass:
    @pytest.mark.parametrize("days", [1, 2])
    async def test_method(self, engine, number, days, virtual_clock=None):
        assert (number, days in (1, 2), virtual_clock) == (7, True, None)
        assert type(asyncio.get_running_loop()) is VirtualLoop
        async with engine(workflows=[month]) as e:
            assert await e.run(month, id="m-1") == "passed"

async def test_clock_alone(virtual_clock):
    before = virtual_clock.now
    await asyncio.sleep(86_400)
    assert (virtual_clock.now - before).days == 1

examples = []

@given(st.integers(1, 9))
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
async def test_drawn(engine, days):
    await asyncio.sleep(days * 86_400)
    examples.append(days)

def test_there_were_examples():
    assert len(examples) == 5

async def test_that_is_wrong(virtual_clock):
    assert virtual_clock.now.year == 1999

async def test_that_waits_for_ever(engine):
    async with engine(workflows=[approval]) as e:
        await e.run(approval, id="a-1")
"""


def test_async_tests_that_use_a_fixture_of_virtual_time_are_run(tmp_path: Path) -> None:
    outcomes, output = run_tests(tmp_path, WORKFLOW + ASYNC_TESTS)
    assert outcomes == {
        "TestInAClass::test_method[1]": "PASSED",
        "TestInAClass::test_method[2]": "PASSED",
        "test_clock_alone": "PASSED",
        "test_drawn": "PASSED",
        "test_there_were_examples": "PASSED",
        "test_that_is_wrong": "FAILED",
        "test_that_waits_for_ever": "FAILED",
    }, output
    assert "assert 2026 == 1999" in output
    assert re.search(r"Deadlock: nothing is scheduled", output)
    assert re.search(r"a-1 \(approval\) waits for .*`approve`", output)


def test_async_tests_of_others_are_left_alone(tmp_path: Path) -> None:
    text = (
        WORKFLOW
        + """
async def test_nobody_runs_it():
    pass

class TestWithAnEngineOfItsOwn:
    @pytest.fixture
    def engine(self):
        return "of a database"

    async def test_nobody_runs_it(self, engine):
        pass

@pytest.mark.anyio
async def test_by_marker(engine):
    pass

def test_plain(engine):
    pass
"""
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = anyio\n")
    outcomes, output = run_tests(tmp_path, text)
    assert outcomes == {
        "test_nobody_runs_it": "FAILED",
        "TestWithAnEngineOfItsOwn::test_nobody_runs_it": "FAILED",
        "test_by_marker": "FAILED",
        "test_plain": "PASSED",
    }
    # At the start of a line: where CI is set, pytest repeats the whole message in its summary.
    assert len(re.findall(r"^async def functions are not natively supported", output, re.MULTILINE)) == 3


def test_an_engine_opens_on_the_loop_of_another_plugin(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        """
import asyncio, inspect, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        names = inspect.signature(pyfuncitem.obj).parameters
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True
"""
    )
    text = (
        WORKFLOW
        + """
from perdure.testing import VirtualLoop

async def test_it(engine, virtual_clock):
    loop = asyncio.get_running_loop()
    assert not isinstance(loop, VirtualLoop)
    began, before = loop.time(), virtual_clock.now
    async with engine(workflows=[month]) as e:
        assert await e.run(month, id="m-1") == "passed"
        await asyncio.sleep(86_400)
        assert (virtual_clock.now - before).days == 31
    assert loop.time() - began < 3600
"""
    )
    outcomes, output = run_tests(tmp_path, text)
    assert outcomes == {"test_it": "PASSED"}, output
