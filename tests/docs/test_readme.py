"""The workflow of the README, turn by turn: what each turn asks for, and that it replays."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

from perdure.testing import Harness, fire, resolve
from tests.docs.test_pages import ROOT


def readme_program(folder: Path) -> Any:
    """Its program as a module, but for its last line, which would run it."""
    shown = re.search(r'```python title="shop.py"\n(.*?)```', (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    program, last = shown[1].rstrip().rsplit("\n", 1)
    assert last == "asyncio.run(main())"
    path = folder / "readme_shop.py"
    path.write_text(program)
    spec = importlib.util.spec_from_file_location("readme_shop", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readmes_workflow_turn_by_turn(tmp_path: Path) -> None:
    harness: Harness[Any] = Harness(readme_program(tmp_path).checkout, "o-1")
    turn = harness.start()
    assert [(command.kind, command.name, command.input) for command in turn.commands] == [
        ("schedule_activity", "charge", ["o-1"])
    ]
    turn = harness.activate(resolve(turn.commands[0], "receipt for o-1"))
    assert [(command.kind, command.input) for command in turn.commands] == [("start_timer", [5.0])]
    turn = harness.activate(fire(turn.commands[0]))
    assert [(command.kind, command.name, command.input) for command in turn.commands] == [
        ("schedule_activity", "ship", ["o-1"])
    ]
    turn = harness.activate(resolve(turn.commands[0], None))
    assert [command.kind for command in turn.commands] == ["complete"]
    assert harness.result == "receipt for o-1"
    harness.replay()
