"""Timeline: the turns of a run drawn downwards, with idle time folded.

Used by page, for `perdure show`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from perdure.cli.saying import clean
from perdure.cli.turnwords import command_text, job_text, operations_of
from perdure.cli.words import clock_time, short_source, since_when, span

if TYPE_CHECKING:
    from perdure.engine.descriptions import AttemptSeen, Description, HistoryTurn

LONG = timedelta(seconds=10)  # a pause that is drawn as one
LINES_OF_A_TURN = 6
LAST = {"complete": "green", "fail": "red", "cancel": "yellow", "continue_as_new": "blue"}
TIME, RAIL = 20, 2


def timeline(turns: Sequence[HistoryTurn], run: Description, now: datetime, last: int, width: int) -> Table:
    """The last turns; `width` is what a line may have."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, style="dim", justify="right", min_width=9)
    table.add_column(no_wrap=True, min_width=RAIL)
    table.add_column(overflow="ellipsis", no_wrap=True)
    room = max(24, width - TIME)
    names = operations_of(command for turn in turns for command in turn.commands)
    shown = turns[-last:]
    if len(shown) < len(turns):
        table.add_row("", "┊", Text(f"{len(turns) - len(shown)} earlier turns; --turns N shows more", "dim"))
    previous: datetime | None = None
    for turn in shown:
        _pause(table, previous, turn.now)
        _turn(table, turn, names, room, now)
        previous = turn.now
    if run.status == "running":
        _pause(table, previous, now)
        for wait in run.waiting[:LINES_OF_A_TURN]:
            since = span(now - since_when(wait.since_turn, turns, run))
            what = Text.assemble((f"waits for {clean(wait.what)}", "cyan"), (f"  {short_source(wait.source)}", "dim"))
            table.add_row(since, Text("○", "cyan"), what)
        if not run.waiting:
            table.add_row("now", Text("○", "cyan"), Text("runs" if run.leases else "", "cyan"))
    return table


def told_of_attempt(attempt: AttemptSeen) -> str:
    """Which one it was, and what came of it."""
    took = "" if attempt.ended is None else f" after {span(attempt.ended - attempt.started)}"
    return f"attempt {attempt.attempt} of {clean(attempt.activity)}: {attempt.outcome.replace('_', ' ')}{took}"


def _turn(table: Table, turn: HistoryTurn, names: dict[int, str], room: int, now: datetime) -> None:
    end = next((command.kind for command in turn.commands if command.kind in LAST), None)
    mark = Text("●", LAST[end] if end else "bold")
    told = [Text(clean(job_text(job, names, room // 2))) for job in turn.jobs]
    told += [
        Text(f"  {told_of_attempt(attempt)}", "yellow")
        for attempt in turn.attempts
        if attempt.attempt > 1 or attempt.outcome != "completed"
    ]
    lines = [*_few(told), *_few(_decisions(turn, room))] or [Text("(nothing)", "dim")]
    head, *rest = lines
    table.add_row(clock_time(turn.now, now), mark, Text.assemble((f"{turn.turn}  ", "dim"), head))
    indent = " " * (len(str(turn.turn)) + 2)
    for line in rest:
        table.add_row("", "│", Text.assemble(indent, line))


def _decisions(turn: HistoryTurn, room: int) -> list[Text]:
    return [
        Text.assemble(
            (f"→ {clean(command_text(command, room // 2))}", LAST.get(command.kind, "")),
            (f"  {short_source(command.source)}" if command.source else "", "dim"),
        )
        for command in turn.commands
    ]


def _few(lines: list[Text]) -> list[Text]:
    if len(lines) <= LINES_OF_A_TURN:
        return lines
    return [*lines[: LINES_OF_A_TURN - 1], Text(f"… and {len(lines) - LINES_OF_A_TURN + 1} more", "dim")]


def _pause(table: Table, before: datetime | None, after: datetime) -> None:
    if before is None:
        return
    if after - before >= LONG:
        table.add_row("", Text("┊", "dim"), Text(f"{span(after - before)}", "dim italic"))
    else:
        table.add_row("", Text("│", "dim"), "")
