"""`python -m perdure.cli`: the command line of this very interpreter."""

from __future__ import annotations

from perdure.cli import main

if __name__ == "__main__":
    main()
