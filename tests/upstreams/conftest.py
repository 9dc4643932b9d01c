"""The cases of the upstream systems run as the kernel's own tests do: live, and evicted before each activation."""

from __future__ import annotations

from tests.kernel.conftest import run

__all__ = ["run"]
