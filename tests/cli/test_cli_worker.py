"""`perdure worker`: serves what a module holds, until it is told to stop."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.conftest import HERE
from tests.cli.stage import Shell

SHOP = str(HERE / "shop.py")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_hands_over_and_exits_with_0(
    shell: Shell, tmp_path: Path, number: signal.Signals
) -> None:
    """E3: SIGTERM drains, and no lease is left behind."""
    with shell.process("worker", SHOP, "--json", cwd=tmp_path) as worker:
        worker.until_event("serving", pid=worker.pid)
        shell("start", "naps", "0.01", "--id", "n", "--wait")
        assert worker.signal(number) == 0
        worker.until_event("stopped")
    assert shell("doctor", "--json").document["leases"] == []


def test_a_worker_says_what_it_serves(shell: Shell, tmp_path: Path) -> None:
    options = ["--queue", "default=3", "--queue", "slow", "--name", "w-7", "--lease", "30s", "--cache", "5"]
    with shell.process("worker", SHOP, *options, cwd=tmp_path) as worker:
        worker.until(lambda line: "Ctrl-C" in line)
        assert worker.said[0].startswith(
            f"worker {worker.pid} serves `default` (3 at once), `slow` (100 at once) of sqlite"
        )
        assert "  workflows:  Cart, checkout, inspected, naps, paid, parent" in worker.said
        shell("start", "naps", "0.01", "--id", "n", "--wait")
        (lease,) = shell("doctor", "--json").document["leases"]
        assert (lease["worker"], lease["queues"], lease["alive"]) == ("w-7", {"default": 3, "slow": 100}, True)


def test_a_worker_that_is_killed_is_taken_over_from(shell: Shell, tmp_path: Path) -> None:
    """E3: a run goes on with the next worker."""
    with shell.process("worker", SHOP, "--json", cwd=tmp_path) as first:
        first.until_event("serving")
        shell("start", "Cart", '"ann"', "--id", "c")
        assert shell("update", "c", "add", '"apple"').document == 1
        assert first.signal(signal.SIGKILL) == -signal.SIGKILL
    shell("signal", "c", "close")
    with shell.process("worker", SHOP, "--json", cwd=tmp_path) as second:
        second.until_event("serving")
        assert shell("start", "Cart", '"ann"', "--id", "c", "--wait").document == 1


@pytest.mark.parametrize(
    ("module", "workflows"),
    [
        ("package.flows", ["flow", "other"]),
        ("package/flows.py", ["flow", "other"]),
        ("package.flows:mine", ["flow"]),
        ("package/flows.py:mine", ["flow"]),
    ],
)
def test_a_module_is_named_by_its_dotted_name_or_its_path_or_a_list_in_it(
    shell: Shell, tmp_path: Path, module: str, workflows: list[str]
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "acts.py").write_text(
        "from perdure import activity\n\n@activity\ndef act() -> None: print()\n"
    )
    (tmp_path / "package" / "flows.py").write_text(
        "from perdure import workflow\nfrom package.acts import act\n\n"
        "@workflow\nasync def flow() -> None: await act()\n\n@workflow\nasync def other() -> None: pass\n\n"
        "same = flow\nmine = [flow, act]\n"
    )
    with shell.process("worker", module, "--json", cwd=tmp_path) as worker:
        serving = worker.until_event("serving")
    assert (serving["module"], serving["workflows"], serving["activities"]) == ("package.flows", workflows, ["act"])
