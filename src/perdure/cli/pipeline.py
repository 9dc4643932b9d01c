"""`perdure pipeline`: what people see of pipelines, and what they do with them (L10, L11).

Printed by pipeline_page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.asking import asks_store, read_arguments
from perdure.cli.opening import with_client
from perdure.cli.saying import print_json, print_json_list, say

if TYPE_CHECKING:
    from perdure.app import Client

F = TypeVar("F", bound=Callable[..., Any])
ANSWERS = ("happened", "did_not_happen", "skip", "retry")


@click.group("pipeline", short_help="Look after pipelines.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, for programs; after the next word it means the same."
)
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Look after pipelines: what they do, what they wait for, and what they want from a person."""
    ctx.obj = as_json


def _wants_json(as_json: bool) -> bool:
    return as_json or bool(click.get_current_context().obj)


def _asks_name(command: F) -> F:
    return click.argument("name", metavar="NAME")(command)


# --- seeing -------------------------------------------------------------------------------------


@command.command("list", short_help="List all pipelines, and how each stands.")
@asks_store
def list_(store: str, as_json: bool) -> None:
    """List all pipelines of a store, and how each stands. With --json, a list."""
    from perdure.cli.pipeline_page import print_list, status_document

    async def look(client: Client) -> list[tuple[str, Any]]:
        return [(name, await client.pipelines.status(name)) for name in await client.pipelines.names()]

    found = with_client(store, look)
    if _wants_json(as_json):
        print_json_list(status_document(name, status) for name, status in found)
    else:
        print_list(found)


@command.command("show", short_help="Show how a pipeline stands, in plain words.")
@_asks_name
@asks_store
def show(name: str, store: str, as_json: bool) -> None:
    """Show how the pipeline NAME stands: what is wrong, when it looks next, what it did, and what waits."""
    from perdure.cli.pipeline_page import print_status, status_document

    status = with_client(store, lambda client: client.pipelines.status(name))
    if _wants_json(as_json):
        print_json(status_document(name, status))
    else:
        print_status(name, status)


@command.command("runs", short_help="List the runs of its handlers, attempt by attempt.")
@_asks_name
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="The last ones.")
@asks_store
def runs(name: str, limit: int, store: str, as_json: bool) -> None:
    """List the last runs of the handlers of the pipeline NAME, the oldest first. With --json, a list."""
    from perdure.cli.pipeline_page import print_runs

    found = with_client(store, lambda client: client.pipelines.runs(name, last=limit))
    if _wants_json(as_json):
        print_json_list(found)
    else:
        print_runs(found)


@command.command("events", short_help="List the events of a topic.")
@_asks_name
@click.argument("topic", metavar="TOPIC")
@click.option("--status", type=click.Choice(["pending", "reserved", "consumed", "skipped"]), help="Only these.")
@asks_store
def events(name: str, topic: str, status: str | None, store: str, as_json: bool) -> None:
    """List the events of TOPIC of the pipeline NAME, the oldest first. With --json, a list."""
    from perdure.cli.pipeline_page import print_events

    found = with_client(store, lambda client: client.pipelines.events(name, topic))
    found = [event for event in found if status in (None, event.status)]
    if _wants_json(as_json):
        print_json_list(found)
    else:
        print_events(found)


# --- acting -------------------------------------------------------------------------------------


@command.command("run-now", short_help="Have every producer run now.")
@_asks_name
@asks_store
def run_now(name: str, store: str, as_json: bool) -> None:
    """Have every producer of the pipeline NAME run now. Refused while anything runs, blocks or is paused."""
    with_client(store, lambda client: client.pipelines.run_now(name))
    _done(as_json, {"pipeline": name, "queued": True}, f"the producers of {name} are queued")


@command.command("pause", short_help="Stop a pipeline.")
@_asks_name
@asks_store
def pause(name: str, store: str, as_json: bool) -> None:
    """Stop the pipeline NAME: what runs is finished, nothing else starts, and what comes meanwhile waits."""
    with_client(store, lambda client: client.pipelines.pause(name))
    _done(as_json, {"pipeline": name, "paused": True}, f"{name} is paused")


@command.command("resume", short_help="Let a pipeline go on that was paused.")
@_asks_name
@asks_store
def resume(name: str, store: str, as_json: bool) -> None:
    """Let the pipeline NAME go on after a pause. A run that waits for a person still does: see `resolve`."""
    with_client(store, lambda client: client.pipelines.resume(name))
    _done(as_json, {"pipeline": name, "paused": False}, f"{name} goes on")


@command.command("resolve", short_help="Say what became of a mutation, or let a run go on.")
@click.argument("run", metavar="RUN")
@click.argument("answer", metavar="ANSWER", type=click.Choice(ANSWERS))
@click.argument("result", metavar="[JSON]", required=False)
@asks_store
def resolve(run: str, answer: str, result: str | None, store: str, as_json: bool) -> None:
    """Give a person's word on the run RUN, which waits for one.

    ANSWER is happened (with what it gave, as JSON), did_not_happen, or skip, of a mutation whose outcome is unknown; or
    retry, of any run that waits.
    """
    (value,) = read_arguments([result]) if result is not None else (None,)
    with_client(store, lambda client: client.pipelines.resolve(run, answer, value))
    _done(as_json, {"run": run, "answer": answer}, f"{run} goes on: {answer}")


@command.command("skip", short_help="Have a pending event skipped.")
@_asks_name
@click.argument("topic", metavar="TOPIC")
@click.argument("message_id", metavar="MESSAGE_ID")
@asks_store
def skip(name: str, topic: str, message_id: str, store: str, as_json: bool) -> None:
    """Have the pending event MESSAGE_ID of TOPIC of the pipeline NAME skipped: nobody will see it."""
    with_client(store, lambda client: client.pipelines.skip_event(name, topic, message_id))
    _done(as_json, {"pipeline": name, "topic": topic, "skipped": message_id}, f"{message_id} is skipped")


def _done(as_json: bool, document: dict[str, Any], words: str) -> None:
    if _wants_json(as_json):
        print_json(document)
    else:
        say(words)
