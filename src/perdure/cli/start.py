"""`perdure start`: start a run by the name of its workflow; none of its code is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.asking import asks_json_arguments, asks_store, read_arguments, read_pairs
from perdure.cli.opening import with_client
from perdure.cli.saying import as_json as shown
from perdure.cli.saying import print_json, say

if TYPE_CHECKING:
    from perdure.app import Client

POLICIES = ["use_existing", "reject", "terminate", "again"]


@click.command("start", short_help="Start a run.")
@click.argument("workflow", metavar="WORKFLOW")
@asks_json_arguments
@click.option("--id", "workflow_id", metavar="ID", help="The workflow id; without it, one that nothing else has.")
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    default="use_existing",
    show_default=True,
    help="What to do where the id is taken.",
)
@click.option("--delay", metavar="DURATION", help="Begin after that, such as 90s or 1h30m.")
@click.option("--timeout", metavar="DURATION", help="End it as timed_out after that.")
@click.option("--queue", metavar="NAME", help="The queue whose workers run it; without it, `default`.")
@click.option("--priority", type=int, metavar="N", default=0, help="Larger goes first.")
@click.option("--attribute", "attributes", metavar="NAME=VALUE", multiple=True, help="To find it by; repeatable.")
@click.option("--memo", "memos", metavar="NAME=VALUE", multiple=True, help="To keep with it; repeatable.")
@click.option("--wait", is_flag=True, help="Wait for its end, and print its result.")
@asks_store
def command(workflow: str, arguments: tuple[str, ...], wait: bool, store: str, as_json: bool, **options: Any) -> None:
    """Start a run of WORKFLOW, with arguments that are JSON; once this returns, it survives everything.

    A worker that knows the workflow runs it; it may come later.
    """
    values = read_arguments(arguments)
    given = _options(options)
    with_client(store, lambda client: _start(client, (workflow, values, given), wait, as_json), may_create=True)


def _options(options: dict[str, Any]) -> dict[str, Any]:
    from perdure.cli.waiting import number_or_text

    given = {
        "id": options["workflow_id"],
        "id_policy": options["policy"],
        "priority": options["priority"],
        "attributes": read_pairs(options["attributes"], "--attribute") or None,
        "memo": read_pairs(options["memos"], "--memo") or None,
        "queue": options["queue"],
    }
    for name in ("delay", "timeout"):
        given[name] = None if options[name] is None else number_or_text(options[name])
    return given


async def _start(client: Client, what: tuple[str, list[Any], dict[str, Any]], wait: bool, as_json: bool) -> None:
    workflow, values, options = what
    handle = await client.start(workflow, *values, **options)
    if not wait:
        if as_json:
            print_json({"id": handle.id, "run_id": handle.run_id, "workflow": workflow})
        else:
            say(f"{handle.id} is started (run {handle.run_id})")
            await _say_who_runs_it(client, options["queue"] or "default", handle.id)
        return
    result = await _result(client, handle, as_json)
    if as_json:
        print_json({"id": handle.id, "run_id": handle.run_id, "workflow": workflow, "result": result})
    else:
        say(shown(result))


async def _result(client: Client, handle: Any, as_json: bool) -> Any:
    """Its result; on a terminal something moves meanwhile."""
    from perdure.cli.saying import console

    terminal = console(err=True)
    if as_json or not terminal.is_terminal:
        return await handle.result()
    with terminal.status(f"{handle.id} runs; Ctrl-C leaves it running"):
        return await handle.result()


async def _say_who_runs_it(client: Client, queue: str, workflow_id: str) -> None:
    from perdure.cli.words import live_workers

    if not live_workers(await client.store.list_leases(), queue):
        say(f"no worker serves queue `{queue}` now: `perdure worker MODULE` starts one")
    else:
        say(f"perdure show {workflow_id}")
