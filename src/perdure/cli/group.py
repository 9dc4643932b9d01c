"""The group of all commands: finds each in its module when it is wanted, and turns errors into lines and exit codes.

In:  the shell, and click's test runner.
Out: the modules of the commands; mistakes says how an error reads.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from perdure.cli.mistakes import DID_NOT_WORK, INTERRUPTED, NOT_FOR_USERS, Mistake, mistake_of


class Program(click.Group):
    """`perdure`: its commands by name, each in the module `perdure.cli.<module>`, as `command`."""

    def __init__(self, modules: Mapping[str, str], **attributes: Any) -> None:
        super().__init__(**attributes, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which people need them."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, loaded now."""
        module = self._modules.get(cmd_name)
        return None if module is None else importlib.import_module(f"perdure.cli.{module}").command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Also for a shell that completes: `--store URL` and `--json` may stand before the command."""
        return super().make_context(info_name, _with_shared_options_behind(args), parent, **extra)

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Run a command, and exit: with 0, 1 where it did not work, 2 where it was called wrongly."""
        given = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        _escape_what_the_terminal_cannot_show()
        try:
            code = super().main(given, prog_name or "perdure", **extra)
        except (KeyboardInterrupt, click.Abort):
            click.echo("", err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:  # whoever read has gone: `perdure list | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still to be flushed goes nowhere
            sys.exit(DID_NOT_WORK)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(error.exit_code)
        except NOT_FOR_USERS:
            raise
        except Exception as error:
            mistake = mistake_of(error)
            if mistake is None:
                raise
            _tell(mistake, as_json="--json" in given[: given.index("--") if "--" in given else None])
            sys.exit(mistake.code)
        sys.exit(code if isinstance(code, int) else 0)


def _with_shared_options_behind(given: list[str]) -> list[str]:
    """`--store URL` and `--json`, which every command has, may stand before the command as well."""
    first = 0
    while first < len(given) and (given[first] in ("--store", "--json") or given[first].startswith("--store=")):
        first += 2 if given[first] == "--store" else 1
    if first >= len(given) or given[first].startswith("-"):
        return given  # there is no command, or an option that is not shared
    end = given.index("--", first) if "--" in given[first:] else len(given)
    return [*given[first:end], *given[:first], *given[end:]]


def _tell(mistake: Mistake, *, as_json: bool) -> None:
    """On stderr one line and a hint; with `--json` also one document on stdout."""
    if as_json:
        import msgspec

        document = {"error": {"type": mistake.type, "message": mistake.message, "hint": mistake.hint}}
        click.echo(msgspec.json.encode(document).decode())
    click.echo(f"error: {mistake.message}", err=True)
    if mistake.hint:
        click.echo(f"hint: {mistake.hint}", err=True)


def _escape_what_the_terminal_cannot_show() -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
