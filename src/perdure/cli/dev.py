"""`perdure dev`: engine and workers at the desk, which start again when the code changes and say what happens.

What happens is told by desk, and every turn is replayed at once (perdure.engine.shadow), every ended run once more
under another hash seed (rehearsals). changes says when the code has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.asking import asks_module, asks_store
from perdure.cli.loading import Loaded, NotImported, load, registry_of
from perdure.cli.mistakes import Wrong
from perdure.cli.opening import check_store
from perdure.cli.serving import asks_queues, read_queues, served

if TYPE_CHECKING:
    from perdure.cli.changes import Changes
    from perdure.cli.desk import Desk
    from perdure.define.registry import Registry
    from perdure.engine.settings import Settings


@click.command("dev", short_help="Run a module at your desk: reloads, and says what happens.")
@asks_module
@asks_queues
@click.option("--again", is_flag=True, hidden=True, help="This is a start after a change.")
@asks_store
def command(module: str, queues: tuple[str, ...], again: bool, store: str, as_json: bool) -> None:
    """Run the workflows and activities of MODULE, say what happens, and start again whenever its code changes.

    Every turn is replayed as soon as it is written, and every run that has ended once more under another hash seed:
    code that would not replay shows here, not in production. Ctrl-C stops it.
    """
    from perdure.cli.changes import Changes
    from perdure.cli.desk import Desk
    from perdure.engine.settings import Settings
    from perdure.errors import UsageError

    check_store(store, may_create=True, may_be_private=True)
    wanted = read_queues(queues)
    desk = Desk(as_json=as_json)
    try:
        loaded = load(module)
        registry = registry_of(loaded)
    except (Wrong, UsageError) as error:
        if not again:
            raise
        changes = Changes(error.files if isinstance(error, NotImported) else (os.path.abspath(module),))
        desk.not_imported(str(error))
        changed = asyncio.run(_stopped_or_changed(changes))
    else:
        settings = Settings(queues=wanted, guard_names=True)
        changed = asyncio.run(_work(store, loaded, registry, settings, desk))
    if changed is not None:
        desk.changed(changed)
        _start_again(module, queues, store, as_json)


async def _work(store: str, loaded: Loaded, registry: Registry, settings: Settings, desk: Desk) -> str | None:
    """Work until the code changes, and say which file; or until it is told to stop: None."""
    from perdure.app import Engine
    from perdure.cli.changes import Changes
    from perdure.cli.rehearsals import Rehearsals
    from perdure.clock import SystemClock
    from perdure.engine.shadow import Shadows

    changes = Changes()
    engine: Engine = Engine(
        store,
        workflows=loaded.workflows,
        activities=loaded.activities,
        pipelines=loaded.pipelines,
        settings=settings,
        listener=desk,
    )
    shadows = Shadows(engine.store, registry, settings, SystemClock(), desk.mismatch)
    rehearsals = Rehearsals(engine.store, loaded.place, desk.rehearsed)
    desk.tells(shadows, rehearsals)
    with desk.logging():
        async with engine:
            desk.serving(store, loaded, served(settings.queues))
            async with desk.watching_attempts(engine.store), rehearsals:
                changed = await _stopped_or_changed(changes)
                await shadows.settle()
    return changed


async def _stopped_or_changed(changes: Changes) -> str | None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, stop.set)
    stopping = asyncio.create_task(stop.wait())
    changing = asyncio.create_task(changes.wait())
    await asyncio.wait((stopping, changing), return_when=asyncio.FIRST_COMPLETED)
    changed = changing.result() if changing.done() and not stop.is_set() else None
    for task in (stopping, changing):
        task.cancel()
    await asyncio.gather(stopping, changing, return_exceptions=True)
    return changed


def _start_again(module: str, queues: tuple[str, ...], store: str, as_json: bool) -> None:
    """The same command, as a fresh interpreter in this process's place."""
    arguments: list[Any] = ["dev", module, "--store", store, "--again"]
    for queue in queues:
        arguments += ["--queue", queue]
    if as_json:
        arguments.append("--json")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "perdure.cli", *arguments])
