"""The desk: what happens in `perdure dev`, line by line as it happens.

In:  the engine, as its listener and through its logs; dev, shadows and rehearsals.
Out: the terminal, or JSON lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Generator
from typing import Any

from rich.text import Text

from perdure.cli.loading import Loaded
from perdure.cli.rehearsals import Rehearsals
from perdure.cli.saying import clean, console, print_json_line
from perdure.cli.turnwords import command_text, job_text, operations_of
from perdure.cli.words import failure_line, short_source, span
from perdure.clock import SystemClock, micros, moment_of
from perdure.engine.parts import Listener
from perdure.engine.shadow import Shadows
from perdure.engine.turns import Prepared
from perdure.errors import PerdureError
from perdure.stores.port import Store
from perdure.stores.records import Attempt, Closing, Run, Task

ENDINGS = {"complete": "green", "fail": "red", "cancel": "yellow", "continue_as_new": "blue"}
LOOK_SECONDS = 0.5
LOOKED_AT_MAX = 50  # runs whose attempts are looked at each time
ID_WIDTH = 16


class Desk(Listener):
    """Tells one person what happens."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._terminal = console()
        self._names: dict[int, dict[int, str]] = {}
        self._performing: dict[int, Run] = {}
        self._told: set[tuple[str, int]] = set()
        self._shadows: Shadows | None = None
        self._rehearsals: Rehearsals | None = None

    def tells(self, shadows: Shadows, rehearsals: Rehearsals) -> None:
        """Who is told of each turn, too."""
        self._shadows, self._rehearsals = shadows, rehearsals

    # --- what the engine tells --------------------------------------------------------------------

    def turn_committed(self, prepared: Prepared) -> None:
        """A turn is durable."""
        run, record = prepared.live.run, prepared.record
        names = self._names.setdefault(run.number, {})
        names.update(operations_of(record.commands))
        if self._as_json:
            self._event("turn", id=run.facts.workflow_id, run_id=run.facts.run_id, record=record)
        else:
            self._print_turn(prepared, names)
        if prepared.live.tasks and prepared.commit.closing is None:
            self._performing[run.number] = run
        else:
            self._performing.pop(run.number, None)
        if self._shadows is not None:
            self._shadows.turn_committed(prepared)
        if prepared.commit.closing is not None:
            self._names.pop(run.number, None)
            if self._rehearsals is not None:
                self._rehearsals.add(run)

    def run_closed(self, number: int, closing: Closing) -> None:
        """A run has ended; if by a turn, that is told with it."""
        self._performing.pop(number, None)
        if self._shadows is not None:
            self._shadows.run_closed(number, closing)

    # --- what dev tells ---------------------------------------------------------------------------

    def serving(self, store: str, loaded: Loaded, queues: str) -> None:
        """It begins."""
        pipelines = [one.name for one in loaded.pipelines]
        if self._as_json:
            names = {
                "workflows": loaded.workflow_names,
                "activities": loaded.activity_names,
                "pipelines": pipelines,
            }
            self._event("serving", store=store, module=loaded.module, **names)
            return
        self._terminal.print(Text.assemble(("perdure dev", "bold"), f"  {loaded.module} on {store}, queues {queues}"))
        self._terminal.print(f"  workflows:  {', '.join(loaded.workflow_names) or 'none'}")
        self._terminal.print(f"  activities: {', '.join(loaded.activity_names) or 'none'}")
        if pipelines:
            self._terminal.print(f"  pipelines:  {', '.join(pipelines)}")
        self._terminal.print(
            Text("  every turn is replayed; a change of the code starts it again; Ctrl-C stops it", "dim")
        )

    def changed(self, path: str) -> None:
        """The code has changed."""
        self._say("changed", f"{short_source(path)} has changed: starting again", "bold blue", path=path)

    def not_imported(self, message: str) -> None:
        """The new code cannot be imported."""
        self._say("not_imported", f"{message}\nwaiting for a change", "red", message=message)

    def mismatch(self, run: Run, error: PerdureError) -> None:
        """A turn came out differently when it was replayed."""
        self._unlike(run, str(error), "replayed right after it was written")

    def rehearsed(self, run: Run, mismatch: str) -> None:
        """An ended run came out differently in another process."""
        self._unlike(run, mismatch, "replayed in another process, with another hash seed")

    # --- logs and attempts ------------------------------------------------------------------------

    @contextlib.contextmanager
    def logging(self) -> Generator[None]:
        """What the engine and workflows log comes here; what others log goes where they say."""
        handler = _Logs(self)
        loggers = [(logging.getLogger("perdure.engine"), logging.WARNING), (logging.getLogger("perdure"), logging.INFO)]
        before = [(logger, logger.level) for logger, _ in loggers]
        for logger, level in loggers:
            logger.setLevel(level)
        loggers[1][0].addHandler(handler)
        loggers[1][0].propagate = False
        try:
            yield
        finally:
            loggers[1][0].removeHandler(handler)
            loggers[1][0].propagate = True
            for logger, level in before:
                logger.setLevel(level)

    def logged(self, record: logging.LogRecord) -> None:
        """Somebody logged something."""
        style = "red" if record.levelno >= logging.ERROR else "yellow" if record.levelno >= logging.WARNING else ""
        self._say("log", record.getMessage(), style, level=record.levelname.lower(), message=record.getMessage())

    @contextlib.asynccontextmanager
    async def watching_attempts(self, store: Store) -> AsyncGenerator[None]:
        """Tell of attempts that failed and are made again, which no turn tells of yet."""
        looking = asyncio.create_task(self._look_at_attempts(store))
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look_at_attempts(self, store: Store) -> None:
        while True:
            for number, run in list(self._performing.items())[:LOOKED_AT_MAX]:
                with contextlib.suppress(PerdureError):  # told by whoever needs it
                    for task in await store.list_tasks(number):
                        self._tell_attempts(run, task)
            await asyncio.sleep(LOOK_SECONDS)

    # --- leaves -----------------------------------------------------------------------------------

    def _tell_attempts(self, run: Run, task: Task) -> None:
        """Those that were not told of before."""
        for attempt in task.attempts:
            if (task.id, attempt.attempt) not in self._told:
                self._told.add((task.id, attempt.attempt))
                wait_us = task.due_us - SystemClock().now_us()
                last = attempt is task.attempts[-1] and task.owner is None and wait_us > 0
                again = f"; again in {span(moment_of(wait_us) - moment_of(0))}" if last else ""
                self._attempt(run, task.name, attempt, again)

    def _print_turn(self, prepared: Prepared, names: dict[int, str]) -> None:
        run, record = prepared.live.run, prepared.record
        room = max(30, self._terminal.width - 15 - ID_WIDTH)
        told = [job_text(job, names, room // 2) for job in record.jobs] or ["(nothing)"]
        self._terminal.print(
            Text.assemble(*_head(run, micros(record.now)), (f"{record.turn:>3}  ", "dim"), clean(", ".join(told))),
            soft_wrap=True,
        )
        for command in record.commands:
            source = f"  {short_source(command.source)}" if command.source else ""
            text = clean(f"→ {command_text(command, room // 2)}")
            line = Text.assemble(" " * (ID_WIDTH + 17), (text, ENDINGS.get(command.kind, "")), (source, "dim"))
            self._terminal.print(line, soft_wrap=True)

    def _attempt(self, run: Run, activity: str, attempt: Attempt, again: str) -> None:
        why = attempt.outcome.replace("_", " ") if attempt.failure is None else failure_line(attempt.failure)
        if self._as_json:
            facts = run.facts
            self._event("attempt", id=facts.workflow_id, run_id=facts.run_id, activity=activity, attempt=attempt)
            return
        text = clean(f"     attempt {attempt.attempt} of {activity} failed: {why}{again}")
        self._terminal.print(Text.assemble(*_head(run, attempt.ended_us), (text, "yellow")), soft_wrap=True)

    def _unlike(self, run: Run, report: str, how: str) -> None:
        if self._as_json:
            self._event("mismatch", id=run.facts.workflow_id, run_id=run.facts.run_id, how=how, message=report)
            return
        title = f"run {run.facts.workflow_id} does not replay ({how}):"
        self._terminal.print(Text.assemble((clean(title), "bold red"), f"\n{clean(report)}"), soft_wrap=True)

    def _say(self, event: str, text: str, style: str, **facts: Any) -> None:
        if self._as_json:
            self._event(event, **facts)
        else:
            self._terminal.print(Text(clean(text), style), soft_wrap=True)

    def _event(self, event: str, **facts: Any) -> None:
        print_json_line({"event": event, **facts})


class _Logs(logging.Handler):
    """Hands log records to the desk."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk

    def emit(self, record: logging.LogRecord) -> None:
        self._desk.logged(record)


def _head(run: Run, now_us: int) -> tuple[tuple[str, str], tuple[str, str]]:
    moment = moment_of(now_us).astimezone().strftime("%H:%M:%S")
    return (f"{moment}  ", "dim"), (f"{clean(run.facts.workflow_id):<{ID_WIDTH}} ", "bold")
