"""Types at the call site: pyright accepts the programs in `right`, and refuses those in `wrong` at the marked lines."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
WRONG = sorted((HERE / "wrong").glob("*.py"))


def complaints(paths: list[Path], folder: Path) -> dict[tuple[str, int], str]:
    """Where pyright, in its strict mode, complains about these programs: file, line and text."""
    for path in paths:
        shutil.copy(path, folder / path.name)
    settings = folder / "pyrightconfig.json"
    settings.write_text(json.dumps({"typeCheckingMode": "strict", "pythonVersion": "3.11", "include": ["."]}))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "-p", str(settings)]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    report = json.loads(printed)
    assert report["summary"]["filesAnalyzed"] == len(paths)
    found: list[dict[str, Any]] = report["generalDiagnostics"]
    return {(Path(one["file"]).name, one["range"]["start"]["line"] + 1): one["message"] for one in found}


def test_pyright_accepts_right_programs(tmp_path: Path) -> None:
    assert complaints(sorted((HERE / "right").glob("*.py")), tmp_path) == {}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], str]:
    return complaints(WRONG, tmp_path_factory.mktemp("wrong"))


def test_pyright_refuses_each_wrong_line_and_no_other(refused: dict[tuple[str, int], str]) -> None:
    marked = {
        (path.name, number)
        for path in WRONG
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "# refused" in line
    }
    assert len(marked) >= 20
    assert marked - refused.keys() == set(), "accepted, although wrong"
    assert {place: text for place, text in refused.items() if place not in marked} == {}
