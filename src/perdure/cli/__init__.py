"""The command line: every command asks, prints, and decides nothing.

Reached as `perdure` and as `python -m perdure.cli`. `program` (group) finds a command in the module of its name. What
all commands share: asking (their options and arguments), opening (the store), loading (the user's module), saying
(terminal and JSON), words (times and states in words), mistakes (errors in one line and a hint).

Nothing but click is imported before a command runs, so that completion and `--help` are quick.
"""

from __future__ import annotations

import click

from perdure.cli.group import Program

COMMANDS = {
    "demo": "demo",
    "dev": "dev",
    "worker": "worker",
    "start": "start",
    "list": "list",
    "show": "show",
    "history": "history",
    "signal": "signal",
    "query": "query",
    "update": "update",
    "resolve": "resolve",
    "cancel": "cancel",
    "terminate": "terminate",
    "pipeline": "pipeline",
    "doctor": "doctor",
    "completion": "completion",
}

program = Program(
    COMMANDS,
    name="perdure",
    help=(
        "Durable execution for Python: look after runs from the terminal.\n\n"
        "The store comes from --store URL, else from PERDURE_STORE, else it is sqlite:///perdure.db. "
        "Every command takes --json; both may stand before the command as well. "
        "Exit codes: 0; 1: it did not work; 2: it was called wrongly."
    ),
)
click.version_option(package_name="perdure", message="%(prog)s %(version)s")(program)


def main() -> None:
    """The entry point."""
    program()
