"""`perdure show`: what a person needs to know of a run at three in the morning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.asking import asks_run, asks_store
from perdure.cli.opening import with_client
from perdure.cli.saying import print_json

if TYPE_CHECKING:
    from perdure.app import Client
    from perdure.cli.seen import Seen
    from perdure.engine.descriptions import RunSummary


@click.command("show", short_help="Show how a run stands, and what is wrong with it.")
@asks_run
@click.option(
    "--turns", type=click.IntRange(min=0), default=20, show_default=True, metavar="N", help="Of the timeline."
)
@asks_store
def command(id: str, run_id: str | None, turns: int, store: str, as_json: bool) -> None:
    """Show how the run ID stands: what it waits for, what is wrong, who holds it, and what has happened so far."""
    seen = with_client(store, lambda client: _look(client, id, run_id))
    if as_json:
        print_json(_document(seen))
    else:
        from perdure.cli.page import print_page

        print_page(seen, turns)


async def _look(client: Client, id: str, run_id: str | None) -> Seen:
    from perdure.cli.seen import Seen
    from perdure.clock import SystemClock, moment_of

    handle = client.handle(id, run_id)
    description = await handle.describe()
    handle = client.handle(id, description.run_id)  # of one generation, whatever happens meanwhile
    return Seen(
        description=description,
        turns=await handle.history(),
        leases=await client.store.list_leases(),
        state=await handle.state(),
        generations=await _generations(client, id),
        parent_id=await _parent_id(client, description.parent),
        now=moment_of(SystemClock().now_us()),
    )


async def _generations(client: Client, id: str) -> list[RunSummary]:
    """All runs of this workflow id, the oldest first; only the newest of very many."""
    from perdure.engine.descriptions import summary_of
    from perdure.stores.records import Compare

    runs = await client.store.list_runs(Compare("id", "=", id), GENERATIONS_MAX)
    return [summary_of(run) for run in reversed(runs)]


async def _parent_id(client: Client, run_id: str | None) -> str | None:
    from perdure.stores.records import Compare

    found = [] if run_id is None else await client.store.list_runs(Compare("run_id", "=", run_id), 1)
    return found[0].facts.workflow_id if found else None


GENERATIONS_MAX = 20


def _document(seen: Seen) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(seen.description)
    for wait, found in zip(document["waiting"], seen.description.waiting, strict=True):
        wait["since"] = next((turn.now for turn in seen.turns if turn.turn == found.since_turn), None)
    document["sentence"] = seen.sentence
    document["parent_id"] = seen.parent_id
    document["state"] = seen.state
    document["generations"] = seen.generations
    return document
