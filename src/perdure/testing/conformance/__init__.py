"""Conformance: every line of perdure.stores.port as a case that can be run on any store.

With pytest:

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_my_store(case: Case, tmp_path: Path) -> None:
        run_case(case, lambda clock: MyStore(tmp_path / "store", clock))

Without it, call `run_case` for each of `CASES`, each time with a way to make store objects on data that is new.
The cases are in the modules beside, one for each side of the port; docs/stores.md says more.
"""

from perdure.testing.conformance.expecting import NotConforming
from perdure.testing.conformance.stage import KillStore, MakeStore, Stores
from perdure.testing.conformance.suite import CASES, Case, play_case, run_case

__all__ = ["CASES", "Case", "KillStore", "MakeStore", "NotConforming", "Stores", "play_case", "run_case"]
