"""`perdure completion`: the script with which a shell completes commands, options and workflow ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from perdure.cli.mistakes import Failed
from perdure.cli.saying import print_json

VARIABLE = "_PERDURE_COMPLETE"


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def command(shell: str, as_json: bool) -> None:
    """Print the completion script of SHELL: bash, zsh or fish.

    For bash: eval "$(perdure completion bash)", for instance in ~/.bashrc.
    """
    from perdure.cli import program

    completion = get_completion_class(shell)
    if completion is None:
        raise Failed(f"there is no completion for {shell}")
    made = completion(program, {}, "perdure", VARIABLE)
    script = made.source_template % made.source_vars()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
