"""Page: a run as `perdure show` draws it, the sentence first.

In:  seen.Seen, from show.
Out: the terminal; timeline draws the turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perdure.cli.saying import as_json, clean, console
from perdure.cli.timeline import timeline
from perdure.cli.turnwords import value_cut
from perdure.cli.words import (
    ago,
    clock_time,
    failure_line,
    live_workers,
    short_source,
    since_when,
    span,
)
from perdure.clock import micros

if TYPE_CHECKING:
    from perdure.cli.seen import Seen
    from perdure.engine.descriptions import AttemptSeen, OpenActivity, RunSummary
    from perdure.errors import Failure

COLOURS = {
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "timed_out": "red",
    "cancelled": "yellow",
    "terminated": "yellow",
    "continued": "blue",
}
LISTED_MAX = 20
VALUE_ROWS = 3  # a long input or result takes so many lines, and no more


def print_page(seen: Seen, turns: int) -> None:
    """Print all of it."""
    terminal = console()
    one = seen.description
    colour = "red" if one.blocked is not None else COLOURS.get(one.status, "white")
    terminal.print(Text.assemble((clean(one.id), "bold"), "  ", (clean(one.type), "bold"), (f"  {one.run_id}", "dim")))
    terminal.print(Text.assemble(("● ", colour), (clean(seen.sentence), colour)))
    for title, content in _sections(seen, turns, terminal):
        terminal.print()
        terminal.print(Text(title, "bold"))
        terminal.print(Padding(content, (0, 0, 0, 2)))


def _sections(seen: Seen, turns: int, terminal: Console) -> Iterator[tuple[str, RenderableType]]:
    one = seen.description
    if one.blocked is not None:
        yield f"why it is blocked, since {clock_time(one.blocked.since, seen.now)}", Text(clean(one.blocked.reason))
    if one.failure is not None:
        yield "why it ended", _failure(one.failure)
    yield "facts", _facts(seen, terminal.width)
    if len(one.waiting) > 1 or (one.waiting and one.blocked is not None):
        yield "waits for", _waits(seen)
    if one.activities:
        yield "activities that have no answer yet", _open(seen)
    tried = [attempt for attempt in one.attempts if attempt.outcome != "completed" or attempt.attempt > 1]
    if tried:
        yield "attempts that did not work, and those after them", _attempts(tried, seen.now)
    if seen.state:
        yield "state", _state(seen, terminal.width)
    if one.children:
        yield "children", _runs(one.children, seen.now)
    if len(seen.generations) > 1:
        yield "runs of this id", _runs(seen.generations, seen.now, by_run_id=True)
    if turns and seen.turns:
        yield "timeline", timeline(seen.turns, one, seen.now, turns, terminal.width - 2)


# --- sections ---------------------------------------------------------------------------------------


def _facts(seen: Seen, width: int) -> Table:
    one, now = seen.description, seen.now
    room = (width - 16) * VALUE_ROWS
    table = _grid()
    table.add_row("input", Text(value_cut(", ".join(map(as_json, one.input)), room)))
    if one.status == "completed":
        table.add_row("result", Text(value_cut(as_json(one.result), room)))
    table.add_row("started", f"{clock_time(one.started, now)}, {ago(one.started, now)}")
    if one.closed is not None:
        table.add_row("ended", f"{clock_time(one.closed, now)}, {ago(one.closed, now)}")
    if one.deadline is not None and one.closed is None:
        table.add_row("times out", f"{clock_time(one.deadline, now)}, in {span(one.deadline - now)}")
    if one.status == "running":
        if one.next_wake is not None and one.next_wake > now:
            table.add_row("next alarm", f"{clock_time(one.next_wake, now)}, in {span(one.next_wake - now)}")
        table.add_row("held by", Text(_holders(seen)))
        if one.pending_messages:
            table.add_row("messages", f"{one.pending_messages} accepted, and not taken yet")
    table.add_row("queue", Text(one.queue + (f", priority {one.priority}" if one.priority else "")))
    for what, values in (("attributes", one.attributes), ("memo", one.memo)):
        if values:
            table.add_row(what, Text(", ".join(f"{clean(key)} = {as_json(value)}" for key, value in values.items())))
    if one.published_version:
        value = value_cut(as_json(one.published), room)
        table.add_row("published", Text(f"{value}, version {one.published_version}"))
    table.add_row("turns", str(one.turns) + (f", in generation {one.generation}" if one.generation else ""))
    if one.parent is not None:
        table.add_row(
            "child of", Text(f"{clean(seen.parent_id)} (run {one.parent})" if seen.parent_id else f"run {one.parent}")
        )
    return table


def _holders(seen: Seen) -> str:
    one = seen.description
    if one.leases:
        return ", ".join(
            f"{clean(lease.worker)} (lease {lease.number}, until {clock_time(lease.expires, seen.now)})"
            for lease in one.leases
        )
    there = live_workers(seen.leases, one.queue, micros(seen.now))
    if there:
        names = ", ".join(clean(lease.name) for lease in there[:3]) + (" …" if len(there) > 3 else "")
        return f"nobody now; queue `{one.queue}` is served by {names}"
    return f"nobody, and nobody serves queue `{one.queue}`"


def _waits(seen: Seen) -> Table:
    table = _grid("cyan")
    for wait in seen.description.waiting[:LISTED_MAX]:
        since = span(seen.now - since_when(wait.since_turn, seen.turns, seen.description))
        table.add_row(wait.unit, Text(f"{clean(wait.what)}, for {since}, at {clean(short_source(wait.source))}"))
    _more(table, len(seen.description.waiting))
    return table


def _open(seen: Seen) -> Table:
    table = _grid("cyan")
    for one in seen.description.activities[:LISTED_MAX]:
        table.add_row(Text(clean(one.activity)), Text(_open_words(one, seen)))
    _more(table, len(seen.description.activities))
    return table


def _open_words(one: OpenActivity, seen: Seen) -> str:
    if one.worker is not None:
        running = [at for at in seen.description.attempts if at.key == one.key and at.outcome == "running"]
        since = f" for {span(seen.now - running[-1].started)}" if running else ""
        text = f"attempt {one.attempt} runs{since} on {clean(one.worker)}"
    elif one.waits_for is not None and one.since is not None:
        text = f"{_waits_for(one)}, for {span(seen.now - one.since)}"
    elif one.due is None:
        text = "is set aside, because its run is damaged"
    elif one.due > seen.now:
        at = clock_time(one.due, seen.now)
        text = f"attempt {one.attempt + 1} is due in {span(one.due - seen.now)}, at {at}"
    else:
        text = f"attempt {one.attempt + 1} waits {span(seen.now - one.due)} for a worker of queue `{one.queue}`"
    return text + (", and is asked to cancel" if one.cancelling else "") + f"  (key {one.key})"


def _waits_for(one: OpenActivity) -> str:
    if one.waits_for == "a person":
        return "whether it happened is not known: waits for a person's word (`perdure resolve`)"
    return "waits for the outside" if one.waits_for == "the outside" else "is asked whether it happened"


def _attempts(tried: list[AttemptSeen], now: datetime) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for title in ("activity", "attempt", "when", "took", "on", "outcome"):
        table.add_column(title, overflow="fold", no_wrap=title in ("attempt", "when", "took"))
    for one in tried[-LISTED_MAX:]:
        took = span((one.ended or now) - one.started)
        why = one.outcome.replace("_", " ") + ("" if one.failure is None else f": {failure_line(one.failure)}")
        style = "green" if one.outcome == "completed" else "yellow" if one.outcome == "running" else "red"
        table.add_row(
            Text(clean(one.activity)),
            str(one.attempt),
            clock_time(one.started, now),
            took,
            Text(clean(one.worker)),
            Text(clean(why), style),
        )
    _more(table, len(tried), "… {} earlier ones; perdure history has them")
    return table


def _state(seen: Seen, width: int) -> Table:
    table = _grid("cyan")
    for key, value in seen.state.items():
        table.add_row(Text(clean(key)), Text(value_cut(as_json(value), width * VALUE_ROWS)))
    return table


def _runs(runs: list[RunSummary], now: datetime, *, by_run_id: bool = False) -> Table:
    table = _grid("")
    for one in runs[-LISTED_MAX:]:
        status = "blocked" if one.blocked is not None else one.status.replace("_", " ")
        colour = "red" if one.blocked is not None else COLOURS.get(one.status, "white")
        when = f"{clock_time(one.started, now)}" + ("" if one.closed is None else f", ended {ago(one.closed, now)}")
        what = "" if by_run_id else f"{clean(one.type)}  "
        table.add_row(Text(one.run_id if by_run_id else clean(one.id)), Text(f"{what}{when}  ").append(status, colour))
    _more(table, len(runs))
    return table


def _failure(failure: Failure) -> RenderableType:
    parts: list[RenderableType] = []
    deepest: Failure | None = failure
    while deepest is not None:
        prefix = "" if not parts else "because of "
        parts.append(Text(clean(f"{prefix}{failure_line(deepest)}"), "red"))
        if deepest.traceback and deepest.cause is None:
            parts.append(Text(clean(_last_lines(deepest.traceback)), "dim"))
        deepest = deepest.cause
    return Group(*parts)


# --- leaves -----------------------------------------------------------------------------------------


def _last_lines(traceback: str, lines_max: int = 12) -> str:
    lines = traceback.rstrip().splitlines()
    return "\n".join(lines[-lines_max:])


def _grid(style: str = "dim") -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style=style, no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _more(table: Table, amount: int, text: str = "… and {} more; --json has them") -> None:
    if amount > LISTED_MAX:
        table.add_row("", Text(text.format(amount - LISTED_MAX), "dim"))
