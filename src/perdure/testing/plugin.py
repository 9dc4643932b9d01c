"""The pytest plugin: fixtures for tests of workflows, loaded by pytest wherever Perdure is installed.

An `async def` test that uses `engine` or `virtual_clock` is run here, on virtual time, if no other plugin runs it.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest


@pytest.fixture(scope="session")
def hash_seeds() -> Iterator[Any]:
    """Processes with other hash seeds, in which the runs of `harness` are replayed as well."""
    from perdure.testing.hash_seeds import HashSeeds

    processes = HashSeeds()
    yield processes
    processes.close()


@pytest.fixture
def harness(hash_seeds: Any) -> Iterator[Callable[..., Any]]:
    """Make harnesses with `harness(workflow, *args)`; each is replayed strictly when the test ends, here and elsewhere.

    Elsewhere is in processes with other hash seeds, if they can import the workflow.
    """
    from perdure.define.workflow import definition_of
    from perdure.testing import Harness

    made: list[tuple[Any, Any]] = []

    def make(workflow: Any, *args: Any, **options: Any) -> Any:
        one: Any = Harness(workflow, *args, **options)
        made.append((one, definition_of(workflow)))
        return one

    yield make
    for one, definition in made:
        if one.turns:
            one.replay()
            hash_seeds.check(one, definition)


@pytest.fixture
def replay_history(request: Any) -> Callable[..., Any]:
    """Replay a recorded transcript with `replay_history(path)`; a harness that stands at its end.

    The workflow is the one of that name in the test's own module, else in any module that is loaded; one that is given
    as the second argument is taken instead.
    """
    from perdure.testing import Harness, Transcript

    def replay(path: str | Path, workflow: Any = None, **options: Any) -> Any:
        transcript = Transcript.from_json(Path(path).read_text("utf-8"))
        found = _workflow_named(transcript.workflow, request.module) if workflow is None else workflow
        return Harness.replay_transcript(found, transcript, **options)

    return replay


@pytest.fixture
def virtual_clock() -> Any:
    """The test's `VirtualClock`. An `async def` test that asks for it runs on virtual time by this clock."""
    from perdure.testing import VirtualClock

    return VirtualClock()


@pytest.fixture
def engine(virtual_clock: Any) -> Callable[..., Any]:
    """Open an engine in memory on virtual time with `async with engine(workflows=[…], activities=[…], start=…)`."""
    from perdure.testing.engines import virtual_engine

    return functools.partial(virtual_engine, clock=virtual_clock)


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on virtual time, unless another plugin has run it, or is asked to by a marker."""
    clock = pyfuncitem.funcargs.get("virtual_clock")
    if type(clock).__module__ != "perdure.testing.clock":  # none, or a fixture of the project's own
        return None
    if any(pyfuncitem.get_closest_marker(name) for name in RUN_BY_OTHERS):
        return None
    test: Any = pyfuncitem.obj
    drawn: Any = getattr(test, "hypothesis", None)  # calls `inner_test` once per example
    if drawn is not None and inspect.iscoroutinefunction(drawn.inner_test):
        drawn.inner_test = _on_virtual_time(drawn.inner_test, clock)
        return None
    if not inspect.iscoroutinefunction(test):
        return None
    asked = [name for name, one in inspect.signature(test).parameters.items() if one.default is one.empty]
    given = {name: pyfuncitem.funcargs[name] for name in asked if name in pyfuncitem.funcargs}
    _on_virtual_time(test, clock)(**given)
    return True


def _workflow_named(name: str, test_module: Any) -> Any:
    from perdure.define.workflow import DEFINITION, Workflow, definition_of
    from perdure.errors import NotFound, UsageError

    def named_in(modules: list[Any]) -> dict[int, Any]:
        found: dict[int, Any] = {}
        values: list[Any] = [value for module in modules for value in list(getattr(module, "__dict__", {}).values())]
        for value in values:
            is_definition = isinstance(value, Workflow) or (isinstance(value, type) and DEFINITION in vars(value))
            if is_definition:
                definition = definition_of(cast("object", value))
                found |= {id(definition): definition} if definition.name == name else {}
        return found

    found = named_in([test_module]) or named_in(list(sys.modules.values()))
    if not found:
        raise NotFound(f"no workflow `{name}` is loaded: import it in the test, or give it as the second argument")
    if len(found) > 1:
        raise UsageError(f"there are {len(found)} workflows `{name}`: give the one to replay as the second argument")
    return next(iter(found.values()))


RUN_BY_OTHERS = ("anyio", "asyncio", "tornasync", "trio", "twisted")


def _on_virtual_time(test: Callable[..., Any], clock: Any) -> Callable[..., None]:
    from perdure.testing import run_virtual

    @functools.wraps(test)
    def run(*args: Any, **given: Any) -> None:
        run_virtual(test(*args, **given), clock=clock)

    return run
