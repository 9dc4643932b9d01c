"""Whose code it is, and which line made a call (K16)."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from dataclasses import dataclass, field
from inspect import unwrap
from pathlib import Path
from typing import Any

import pytest

from perdure import GuardViolation, parallel
from perdure.kernel import callsite
from perdure.kernel.callsite import caller, is_workflow_code, origin, own_code
from perdure.testing import Harness


def refused(run: Harness[Any]) -> str:
    with pytest.raises(GuardViolation) as caught:
        run.start()
    return str(caught.value)


def test_files_belong_to_the_workflow_unless_they_are_installed_standard_or_ours() -> None:
    """K16: by the path of the code alone; a name in angle brackets is somebody's own text, unless it is frozen."""
    mine = [__file__, "shop.py", "/srv/shop/flows.py", "<string>", "<stdin>", "<ipython-input-1-ab>", "<doctest a[0]>"]
    assert [origin(file) for file in mine] == [""] * len(mine)
    assert all(is_workflow_code(file) for file in mine)
    assert origin(os.__file__) == origin("<frozen os>") == "os"
    assert origin("<frozen importlib._bootstrap>") == "importlib"
    assert origin(asyncio.__file__) == "asyncio"
    assert origin("/venv/lib/python3.11/site-packages/requests/api.py") == "requests"
    assert origin(r"C:\venv\Lib\site-packages\six.py") == "six"
    assert origin(unwrap(parallel).__code__.co_filename) == origin(callsite.__file__) == "perdure"
    assert not is_workflow_code(pytest.__file__)


def test_an_installed_workflow_needs_its_own_package_named() -> None:
    """K16: its whole top-level package is workflow code then, and nothing beside it."""
    prefix = "/venv/lib/python3.11/site-packages/"
    assert own_code(__file__) == own_code("<stdin>") == frozenset()
    assert own_code(f"{prefix}shop/flows/checkout.py") == {f"{prefix}shop/"}
    assert own_code(f"{prefix}shop.py") == {f"{prefix}shop.py"}
    assert own_code(f"{prefix}perdure/cli/demo.py") == {f"{prefix}perdure/cli/demo.py"}
    assert is_workflow_code(f"{prefix}shop/prices.py", own_code(f"{prefix}shop/flows.py"))
    assert not is_workflow_code(f"{prefix}shopping/prices.py", own_code(f"{prefix}shop/flows.py"))


def test_an_installed_workflow_is_guarded_and_the_libraries_beside_it_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K16: installed or not, a workflow's own calls count, and a library's do not."""
    packages = tmp_path / "site-packages"
    (packages / "shop_sample").mkdir(parents=True)
    (packages / "clock_sample.py").write_text(
        "import time, uuid\nfrom dataclasses import dataclass, field\ndef read():\n    return time.time()\n"
        "@dataclass\nclass Tag:\n    id: uuid.UUID = field(default_factory=uuid.uuid4)\n"
    )
    (packages / "shop_sample" / "__init__.py").write_text(
        "import time\nimport clock_sample\nfrom perdure import sleep, workflow\n"
        "@workflow\nasync def checkout(direct: bool) -> None:\n    clock_sample.read(), clock_sample.Tag()\n"
        "    if direct:\n        time.time()\n    await sleep(1)\n"
    )
    monkeypatch.setattr(sys, "path", [str(packages), *sys.path])
    shop_sample = importlib.import_module("shop_sample")
    place = packages / "shop_sample" / "__init__.py"
    turn = Harness(shop_sample.checkout, False).start()
    assert [command.source for command in turn.commands] == [f"{place}:9"]
    assert f"time.time() at {place}:8" in refused(Harness(shop_sample.checkout, True))


def test_what_is_remembered_of_files_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """K16: a notebook makes a new file name for every cell."""
    monkeypatch.setattr(callsite, "FILES_KNOWN_MAX", 3)
    assert [origin(f"<cell {number}>") for number in range(10)] == [""] * 10
    assert 0 < len(vars(callsite)["_origins"]) <= 3


@dataclass
class Made:
    where: Any = field(default_factory=caller)


def test_the_caller_is_the_innermost_line_of_a_source_that_the_workflow_has() -> None:
    """K16: what `dataclass` has generated is no line of anybody; the line that made the object is."""
    here = Made().where, caller(), sys._getframe().f_lineno  # pyright: ignore[reportPrivateUsage]
    assert here == ((__file__, here[2]), (__file__, here[2]), here[2])


def test_there_is_no_caller_outside_workflow_code() -> None:
    """K16: what called the turn is the host's, and no line of the workflow's."""
    found: list[Any] = []

    def activate() -> None:
        found.append(caller())

    code = activate.__code__.replace(co_filename=callsite.__file__)
    activate.__code__ = code
    activate()
    assert found == [None]
