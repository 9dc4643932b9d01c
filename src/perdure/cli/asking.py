"""Asking: the options and arguments that commands share, and JSON from the shell.

Used by every command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from perdure.cli.mistakes import Wrong

F = TypeVar("F", bound=Callable[..., Any])
STORE = "sqlite:///perdure.db"
SHOWN_MAX = 60
COMPLETIONS_MAX = 200


def asks_store(command: F) -> F:
    """`--store` and `--json`, which every command has."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)
    return click.option(
        "--store",
        metavar="URL",
        envvar="PERDURE_STORE",
        default=STORE,
        show_default=True,
        show_envvar=True,
        help="The store, such as sqlite:///shop.db.",
    )(command)


def asks_run(command: F) -> F:
    """The workflow id of a run, and which generation of it."""
    command = click.option("--run-id", metavar="ID", help="One generation; without it, the newest.")(command)
    return click.argument("id", metavar="ID", shell_complete=complete_ids)(command)


def asks_module(command: F) -> F:
    """The module with the workflows and activities."""
    return click.argument("module", metavar="MODULE")(command)


def asks_json_arguments(command: F) -> F:
    """Arguments, each of them JSON."""
    return click.argument("arguments", metavar="[JSON]...", nargs=-1)(command)


def read_arguments(texts: Sequence[str]) -> list[Any]:
    """The values of arguments that are JSON. `Wrong` names the first that is not."""
    return [_read(text, f"argument {number}") for number, text in enumerate(texts, 1)]


def read_pairs(texts: Iterable[str], option: str) -> dict[str, Any]:
    """`name=value` as a mapping; a value that is not JSON is text."""
    read: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise Wrong(f"{option} {text!r} is not name=value", f"write it as {option} region=EU")
        if name in read:
            raise Wrong(f"{option} names {name!r} twice", "give each name once; a list is written as region='[1, 2]'")
        try:
            read[name] = _read(value, option)
        except Wrong:
            read[name] = value
    return read


def _read(text: str, what: str) -> Any:
    import json

    import msgspec

    shown = text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 3]}..."
    try:
        value = msgspec.json.decode(text.encode())
        if "{" in text:
            json.loads(text, object_pairs_hook=_refuse_twice)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Wrong(f"{what} is not JSON: {shown!r}: {error}", _how_to_write(shown)) from None
    return value


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    """JSON may name a key twice, and one of the values would be lost."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands there twice")


def _how_to_write(text: str) -> str:
    if text and text[0] not in "[{\"'" and text.isprintable() and '"' not in text:
        return f"text needs quotes of its own: '\"{text}\"'"
    return "write it in single quotes, such as '{\"cents\": 990}'"


def complete_ids(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The newest workflow ids that begin so, for the shell; nothing where the store cannot be read."""
    from perdure.cli.opening import with_client
    from perdure.stores.records import Compare

    async def newest(client: Any) -> list[str]:
        runs = await client.store.list_runs(Compare("id", "like", f"{incomplete}%"), COMPLETIONS_MAX)
        return list(dict.fromkeys(run.facts.workflow_id for run in runs))

    try:
        ids = with_client(str(ctx.params.get("store") or STORE), newest)
    except Exception:  # completing says nothing about what is wrong: the command will
        return []
    return [one for one in ids if one.startswith(incomplete)]
