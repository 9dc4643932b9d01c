"""`perdure history`: the turns of a run, with what each was told and what it decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.asking import asks_run, asks_store
from perdure.cli.opening import with_client
from perdure.cli.saying import console, print_json_list

if TYPE_CHECKING:
    from perdure.engine.descriptions import HistoryTurn


@click.command("history", short_help="Print the turns of a run.")
@asks_run
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the last N turns.")
@asks_store
def command(id: str, run_id: str | None, last: int | None, store: str, as_json: bool) -> None:
    """Print the turns of the run ID: when, what it was told, what it decided.

    With --json, a list of its records, as they are stored, with the attempts behind its answers.
    """
    turns = with_client(store, lambda client: client.handle(id, run_id).history())
    shown = turns[-last:] if last else turns
    if as_json:
        print_json_list(_document(turn) for turn in shown)
    else:
        _print(turns, shown)


def _document(turn: HistoryTurn) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(turn.record))
    document["attempts"] = msgspec.json.decode(msgspec.json.encode(turn.attempts))
    return document


def _print(turns: list[HistoryTurn], shown: list[HistoryTurn]) -> None:
    from rich.table import Table
    from rich.text import Text

    from perdure.cli.turnwords import command_text, job_text, operations_of
    from perdure.cli.words import short_source

    terminal = console()
    names = operations_of(command for turn in turns for command in turn.commands)
    room = max(20, terminal.width - 40)
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for turn in shown:
        moment = turn.now.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        table.add_row(Text(f"turn {turn.turn}", "bold"), moment, "")
        for job in turn.jobs:
            table.add_row("", "", Text.assemble(("← ", "green"), job_text(job, names, room)))
        for attempt in turn.attempts:
            if attempt.outcome != "completed" or attempt.attempt > 1:
                table.add_row("", "", Text(_attempt_line(attempt), "yellow"))
        for command in turn.commands:
            source = f"  {short_source(command.source)}" if command.source else ""
            table.add_row("", "", Text.assemble(("→ ", "cyan"), command_text(command, room), (source, "dim")))
    terminal.print(table)


def _attempt_line(attempt: Any) -> str:
    from perdure.cli.turnwords import value_cut
    from perdure.cli.words import failure_line, span

    took = "" if attempt.ended is None else f", {span(attempt.ended - attempt.started)}"
    why = "" if attempt.failure is None else f": {value_cut(failure_line(attempt.failure), 100)}"
    return f"  attempt {attempt.attempt} of {attempt.activity} on {attempt.worker}{took}: {attempt.outcome}{why}"
