"""Orders: what a turn wants of other runs and of the outside, as the store writes it with the turn (E1); pure.

In:  a turn's record, and the live run that it belongs to.
Out: those parts of `TurnCommit`: children, signals, promises, answers of updates, the next generation.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.define.workflow import Workflow
from perdure.engine.live import Live
from perdure.model import jobs
from perdure.model.commands import Command
from perdure.model.turns import Answered, TurnRecord
from perdure.stores.event_records import NewEvent, TurnEvent
from perdure.stores.records import NewChild, NewPromise, NewRun, Parent, Sent, Successor, UpdateAnswer

write = msgspec.json.Encoder().encode
SEED_BYTES = 7  # of a seed that follows from another run's
SENDING = frozenset({"signal_external", "cancel_external", "cancel_child"})
ORDERING = SENDING | {"start_child", "create_promise", "set_attributes", "continue_as_new", "publish_event"}


class Orders(msgspec.Struct, frozen=True):
    """What one turn wants of others."""

    children: tuple[NewChild, ...] = ()
    sent: tuple[Sent, ...] = ()
    promises: tuple[NewPromise, ...] = ()
    answers: tuple[UpdateAnswer, ...] = ()
    attributes: bytes | None = None
    successor: Successor | None = None
    events: tuple[TurnEvent, ...] = ()


NO_ORDERS = Orders()


def orders_of(
    live: Live,
    record: TurnRecord,
    answered: Sequence[Answered],
    now_us: int,
    definitions: Mapping[str, Workflow[..., Any]],
) -> Orders:
    """Read them out of a turn."""
    commands = [command for command in record.commands if command.kind in ORDERING]
    if not commands and not answered:
        return NO_ORDERS
    of = {kind: [command for command in commands if command.kind == kind] for kind in ORDERING}
    return Orders(
        children=tuple(_child(live, command, now_us) for command in of["start_child"]),
        sent=tuple(sent for command in commands if command.kind in SENDING and (sent := _sent(live, command))),
        promises=tuple(
            NewPromise(seq=_seq(command), name=command.name or "", key=command.options.get("key"))
            for command in of["create_promise"]
        ),
        answers=tuple(
            UpdateAnswer(one.id, write(one)) for one in answered if one.kind in ("update", "update_rejected")
        ),
        attributes=write(live.executor.attributes) if of["set_attributes"] else None,
        successor=_successor(live, of["continue_as_new"][0], definitions) if of["continue_as_new"] else None,
        events=tuple(_event(live, command, at) for at, command in enumerate(of["publish_event"])),
    )


def _event(live: Live, command: Command, at: int) -> TurnEvent:
    """An event for a pipeline; without a message id of its own it has one that this turn alone gives."""
    run_id, options = live.run.facts.run_id, command.options
    (payload,) = msgspec.json.decode(command.encoded, type=tuple[msgspec.Raw])
    event = NewEvent(
        topic=command.name or "",
        message_id=options.get("message_id") or f"{run_id}/{live.last_turn + 1}/{at}",
        payload=bytes(payload),
    )
    return TurnEvent(pipeline=options.get("pipeline"), event=event, by=run_id)


def _child(live: Live, command: Command, now_us: int) -> NewChild:
    facts, seq = live.run.facts, _seq(command)
    options = {**live.called.get(seq, {}), **command.options}
    name = command.name or ""
    timeout = options.get("timeout")
    workflow_id = live.children[seq]
    return NewChild(
        seq,
        NewRun(
            run_id=live.executor.operation_id(seq),
            workflow_id=workflow_id,
            workflow=name,
            version=options.get("version"),
            queue=options.get("queue") or facts.queue,
            priority=facts.priority,
            seed=_seed(facts.seed, f"child {seq}"),
            input=bytes(command.encoded) or b"[]",
            keywords=bytes(command.encoded_kwargs),
            started=write(jobs.Started(workflow_id)),
            deadline_us=None if timeout is None else now_us + round(timeout * 1_000_000),
            parent=Parent(run_id=facts.run_id, seq=seq, close=options.get("parent_close", "terminate")),
        ),
    )


def _sent(live: Live, command: Command) -> Sent | None:
    if command.kind == "cancel_child":
        child = live.children.get(_seq(command))
        job = write(jobs.CancelRequested("its parent does not need it any more"))
        return None if child is None else Sent(workflow_id=child, job=job)
    target = command.options["id"]
    if command.kind == "cancel_external":
        job = write(jobs.CancelRequested(command.options.get("reason", "")))
    else:
        job = write(jobs.Signalled(command.name or "", command.encoded or jobs.NO_ARGUMENTS))
    return Sent(workflow_id=target, job=job, seq=_seq(command))


def _successor(live: Live, command: Command, definitions: Mapping[str, Workflow[..., Any]]) -> Successor:
    """The next generation: a fresh history, the newest code, and everything that carries over (M8, M9)."""
    facts, executor = live.run.facts, live.executor
    started = executor.started
    run_id = str(uuid.uuid5(uuid.UUID(facts.run_id), "next generation"))
    attributes = write(executor.attributes)
    carried: list[tuple[bytes, str | None]] = [
        (write(signal), signal.message_id) for signal in executor.mailbox.unread()
    ]
    carried += [(write(update), None) for update in executor.updates.unanswered()]
    return Successor(
        facts=msgspec.structs.replace(
            facts,
            run_id=run_id,
            generation=started.generation + 1,
            chain=facts.chain or facts.run_id,
            version=definitions[facts.workflow].version if facts.workflow in definitions else facts.version,
            seed=_seed(facts.seed, "next generation"),
            input=bytes(command.encoded) or b"[]",
            keywords=bytes(command.encoded_kwargs),
            attributes=attributes,
            started=write(
                jobs.Started(
                    facts.workflow_id,
                    generation=started.generation + 1,
                    memo=started.memo,
                    attributes=executor.attributes,
                    state=executor.state,
                )
            ),
        ),
        carried=tuple(carried),
    )


def _seed(seed: int, what: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed} {what}".encode(), digest_size=SEED_BYTES).digest(), "big")


def _seq(command: Command) -> int:
    assert command.seq is not None
    return command.seq
