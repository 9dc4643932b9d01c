"""A pytest plugin for scripts/mutants.py: proves which copy of the package is tested, and tells what each test came to.

Loaded with `-p` in the process that runs the tests. It writes one JSON object a line, at once, so that what is known
survives if the process has to be killed.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
from pathlib import Path
from typing import Any

import pytest

SOURCE = "PERDURE_MUTANT_SOURCE"
LOG = "PERDURE_MUTANT_LOG"
MEMORY_BYTES_MAX = 4 << 30  # a break may collect without end
ERROR_LENGTH_MAX = 300


def pytest_configure() -> None:
    """Import all of the package, and see where it came from. What fails here is a fault of the mutant itself."""
    _limit_memory()
    package = importlib.import_module("perdure")
    found = Path(str(package.__file__)).resolve()
    wanted = Path(os.environ[SOURCE]).resolve()
    if not found.is_relative_to(wanted):
        raise pytest.UsageError(f"the package was imported from {found}, and not from {wanted}")
    for module in pkgutil.walk_packages(package.__path__, "perdure."):
        importlib.import_module(module.name)
    _tell(event="ready", source=str(found))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _tell(event="not collected", test=report.nodeid, error=_error_of(report))


def pytest_runtest_logstart(nodeid: str) -> None:
    _tell(event="started", test=nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Each of a test's three parts: set up, call, tear down."""
    error = _error_of(report) if report.failed else None
    _tell(event="failed" if report.failed else "went on", test=report.nodeid, seconds=report.duration, error=error)


def _error_of(report: pytest.CollectReport | pytest.TestReport) -> str:
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    lines = str(report.longrepr if crash is None else crash.message).splitlines()
    return (lines[0] if crash is not None and lines else lines[-1] if lines else "")[:ERROR_LENGTH_MAX]


def _tell(**fields: object) -> None:
    with open(os.environ[LOG], "a", encoding="utf-8") as log:
        log.write(json.dumps(fields) + "\n")


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, resource.getrlimit(resource.RLIMIT_AS)[1]))
    except (ImportError, OSError, ValueError):
        pass  # not on this system
