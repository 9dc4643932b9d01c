"""`perdure worker`: run the workflows and activities of a module, until it is told to stop."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import click

from perdure.cli.asking import asks_module, asks_store
from perdure.cli.loading import Loaded, load
from perdure.cli.opening import check_store, with_client
from perdure.cli.saying import print_json_line, say
from perdure.cli.serving import asks_queues, log_to_stderr, read_queues, served


@click.command("worker", short_help="Run the workflows and activities of a module.")
@asks_module
@asks_queues
@click.option("--name", metavar="TEXT", help="What people see it as; without it, host and process id.")
@click.option("--lease", metavar="DURATION", help="How long after its death others take over at the latest (10 s).")
@click.option("--cache", type=int, metavar="N", help="How many parked runs stay in memory (1000).")
@asks_store
def command(module: str, queues: tuple[str, ...], store: str, as_json: bool, **options: Any) -> None:
    """Work on the runs of a store with the workflows and activities of MODULE.

    MODULE is package.module or path/to/file.py; with `:name` it is a list in it. On SIGTERM or SIGINT the worker takes
    nothing new, and hands over what it holds.
    """
    from perdure.cli.waiting import number_or_text

    check_store(store, may_create=True)
    wanted = read_queues(queues)
    loaded = load(module)
    given = {name: value for name, value in options.items() if value is not None}
    if "lease" in given:
        given["lease"] = number_or_text(given["lease"])
    log_to_stderr()
    with_client(store, _is_there, may_create=True)
    _work(store, loaded, {"queues": wanted, **given}, as_json)


async def _is_there(_: Any) -> None:
    """The store can be opened: what is wrong with it is said before anything is served."""


def _work(store: str, loaded: Loaded, options: dict[str, Any], as_json: bool) -> None:
    from perdure.app import Worker

    async def work() -> None:
        worker = Worker(
            store,
            workflows=loaded.workflows,
            activities=loaded.activities,
            pipelines=loaded.pipelines,
            **options,
        )
        _say_what_it_serves(store, loaded, options["queues"], as_json)
        await worker.run()

    asyncio.run(work())
    if as_json:
        print_json_line({"event": "stopped", "pid": os.getpid()})
    else:
        say("stopped; what was under way is handed over")


def _say_what_it_serves(store: str, loaded: Loaded, queues: dict[str, int], as_json: bool) -> None:
    if as_json:
        serving: dict[str, Any] = {
            "event": "serving",
            "pid": os.getpid(),
            "store": store,
            "module": loaded.module,
            "queues": queues,
            "workflows": loaded.workflow_names,
            "activities": loaded.activity_names,
            "pipelines": [one.name for one in loaded.pipelines],
        }
        print_json_line(serving)
        return
    say(f"worker {os.getpid()} serves {served(queues)} of {store}")
    say(f"  workflows:  {', '.join(loaded.workflow_names) or 'none'}")
    say(f"  activities: {', '.join(loaded.activity_names) or 'none'}")
    if loaded.pipelines:
        say(f"  pipelines:  {', '.join(one.name for one in loaded.pipelines)}")
    say("Ctrl-C or SIGTERM stops it.")
