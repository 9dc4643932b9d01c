"""Pages of pipelines: how they stand, their runs and their events, for people; and as documents for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.cli.saying import as_json, clean, console, say

if TYPE_CHECKING:
    from perdure.pipelines.records import SeenEvent, SeenRun
    from perdure.pipelines.wording import PipelineStatus

PAYLOAD_LENGTH_MAX = 80
COLOURS = {"Running": "green", "Idle": "", "Needs attention": "red", "Stopped": "yellow"}


def status_document(name: str, status: PipelineStatus) -> dict[str, Any]:
    """For programs."""
    return {
        "pipeline": name,
        "status": status.status,
        "issue": status.issue,
        "schedule": status.schedule,
        "activity": status.activity,
        "pending": status.pending,
    }


def print_list(found: list[tuple[str, PipelineStatus]]) -> None:
    """A line for each."""
    if not found:
        say("there are no pipelines yet")
        return
    rows = [
        (name, status.status, str(sum(work.count for work in status.pending.values())), status.issue or status.schedule)
        for name, status in found
    ]
    _print_table(("pipeline", "status", "pending", ""), rows)


def print_status(name: str, status: PipelineStatus) -> None:
    """All that there is to be said."""
    from rich.text import Text

    console().print(Text(f"{name}: {status.status}", style=COLOURS.get(status.status, "")))
    if status.issue:
        say(f"  {status.issue}")
    say(f"  {status.schedule}")
    for topic, work in status.pending.items():
        oldest = "" if work.oldest_at is None else f", the oldest of {work.oldest_at:%Y-%m-%d %H:%M:%S} UTC"
        say(f"  {topic}: {work.count} pending{oldest}")
    for line in status.activity:
        say(f"  - {line}")


def print_runs(found: list[SeenRun]) -> None:
    """A line for each attempt."""
    if not found:
        say("nothing has run yet")
        return
    rows = [
        (
            run.id,
            run.handler,
            run.status,
            run.stage,
            run.mutation,
            f"{run.created_at:%Y-%m-%d %H:%M:%S}",
            "" if run.error is None else f"{run.error.type}: {run.error.message}",
        )
        for run in found
    ]
    _print_table(("run", "handler", "status", "stage", "mutation", "began (UTC)", "error"), rows)


def print_events(found: list[SeenEvent]) -> None:
    """A line for each."""
    if not found:
        say("there are no such events")
        return
    rows = [
        (
            event.id,
            event.status,
            str(event.attempt),
            f"{event.published_at:%Y-%m-%d %H:%M:%S}",
            _short(as_json(event.payload)),
        )
        for event in found
    ]
    _print_table(("event", "status", "attempt", "published (UTC)", "payload"), rows)


def _print_table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(*titles, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    console().print(table)


def _short(text: str) -> str:
    return text if len(text) <= PAYLOAD_LENGTH_MAX else f"{text[:PAYLOAD_LENGTH_MAX]}…"
