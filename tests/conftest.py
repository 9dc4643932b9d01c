"""What all tests share: how Hypothesis runs.

Every example is drawn from a fixed seed, so that a run of the tests says the same thing twice; no example has a
deadline, because a machine that is busy is not a fault.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("perdure", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("perdure")
