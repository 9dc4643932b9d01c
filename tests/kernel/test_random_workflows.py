"""Random workflows under the contract: replayed, evicted, corrupted, rescheduled, answered twice, cancelled (K1, K11).

`make test` draws the same few examples every time; `PERDURE_EXAMPLES=2000 make test ARGS=tests/kernel/…` draws others,
that many for the quickest rule. What was found that way is in tests/kernel/test_random_found.py, for good.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from perdure import NondeterminismError
from perdure.model.commands import Command
from perdure.model.jobs import AnyJob, Recorded
from perdure.model.turns import TurnRecord
from perdure.policies import Choice, get_log, new
from perdure.policies.choices import in_full
from perdure.testing import Harness, Transcript, cancel, evict, resolve
from tests.kernel.random_plans import BATCHES, HANDLERS, PLANS
from tests.kernel.random_runs import Batches, Run, harness_of, story, workflow_of
from tests.kernel.random_workflows import Node

EXAMPLES = int(os.environ.get("PERDURE_EXAMPLES", "0"))
POLICIES = 20

Test = Callable[..., None]


def examples(everyday: int) -> Callable[[Test], Test]:
    """That many in `make test`; in a campaign the same share of what was asked for, drawn anew."""
    asked = max(1, EXAMPLES * everyday // 200) if EXAMPLES else everyday
    # Not shrunk in `make test`: the same example fails again, and a campaign shrinks it.
    phases = [Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if EXAMPLES else [])]
    return settings(
        max_examples=asked,
        derandomize=not EXAMPLES,
        database=None,
        phases=phases,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


def jobs_of(harness: Harness[Any]) -> list[tuple[Recorded, ...]]:
    """What each recorded turn was told, without the start."""
    return [record.jobs for record in harness.transcript.turns][1:]


@examples(200)
@given(PLANS, HANDLERS, BATCHES)
def test_a_random_workflow_replays_to_the_same_bytes(plan: Node, handler: Node | None, batches: Batches) -> None:
    """K1, K11: also from the JSON of its transcript, and source lines included."""
    ran = Run(plan, handler).drive(batches)
    assert story(ran.replay().turns) == story(ran.turns)
    written = ran.transcript.to_json(sources=True)
    again = Harness.replay_transcript(workflow_of(handler), Transcript.from_json(written))
    assert story(again.turns) == story(ran.turns)
    assert again.transcript.to_json(sources=True) == written
    assert (again.status, again.dropped) == (ran.status, ran.dropped)


@examples(200)
@given(PLANS, HANDLERS, BATCHES)
def test_no_random_workflow_fails_by_an_error_of_the_kernel(plan: Node, handler: Node | None, batches: Batches) -> None:
    """K15: what a run fails with is what its plan, or whoever answered it, raised."""
    ran = Run(plan, handler).drive(batches)
    assert ran.failure is None or ran.failure.type in EXPECTED, ran.failure
    # What a plan started and never awaited may fail; asyncio says so when the future is freed.
    assert [report for report in ran.reports if "exception was never retrieved" not in report] == []


EXPECTED = {
    *("ValueError", "TimeoutError", "CancelledError", "ActivityFailed", "ChildFailed", "ExternalFailed"),
    *("PromiseRejected", "ExceptionGroup", "BaseExceptionGroup", "UsageError"),
}


@examples(40)
@given(PLANS, HANDLERS, BATCHES)
def test_eviction_before_every_turn_and_garbage_collection_change_nothing(
    plan: Node, handler: Node | None, batches: Batches
) -> None:
    """K1, K18: neither a rebuild nor the garbage collector has a say in what is decided."""
    ran = Run(plan, handler).drive(batches)
    evicted = harness_of(plan, handler)
    gc.freeze()
    try:
        evicted.start()
        for told in jobs_of(ran):
            evicted.activate(evict())
            gc.collect()
            evicted.activate(*told)
    finally:
        gc.unfreeze()
    assert evicted.transcript.to_json() == _untimed(ran, evicted)


def _untimed(ran: Harness[Any], like: Harness[Any]) -> str:
    """The transcript of a run, with the times of another one that was told the same."""
    times = [record.now for record in like.transcript.turns]
    turns = [msgspec.structs.replace(record, now=now) for record, now in zip(ran.transcript.turns, times, strict=True)]
    return msgspec.structs.replace(ran.transcript, turns=tuple(turns)).to_json()


# --- a record that is not what the code does ---------------------------------------------------


@examples(60)
@given(PLANS, HANDLERS, BATCHES, st.data())
def test_one_command_dropped_doubled_swapped_or_changed_is_found(
    plan: Node, handler: Node | None, batches: Batches, data: st.DataObject
) -> None:
    """K11: a missing, extra, reordered or changed command is nondeterminism."""
    ran = Run(plan, handler).drive(batches)
    records = ran.transcript.turns
    places = [(turn, at) for turn, record in enumerate(records) for at in range(len(record.commands))]
    for turn, at in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=4, unique=True)):
        for what, damaged in _damages(records[turn], at):
            broken = msgspec.structs.replace(ran.transcript, turns=(*records[:turn], damaged, *records[turn + 1 :]))
            found = _refusal(handler, broken)
            assert found, f"{what} of command {at} of turn {turn} was not found: {records[turn].commands[at]}"
            assert "Likely cause" in str(found)


def _refusal(handler: Node | None, broken: Transcript) -> NondeterminismError | None:
    try:
        Harness.replay_transcript(workflow_of(handler), broken, turn_limit=None)
    except NondeterminismError as error:
        return error
    return None


def _damages(record: TurnRecord, at: int) -> list[tuple[str, TurnRecord]]:
    commands = record.commands
    command = commands[at]
    before, after = commands[:at], commands[at + 1 :]
    made = [
        ("the loss", (*before, *after)),
        ("a second copy", (*before, command, command, *after)),
        *((f"another {field}", (*before, changed, *after)) for field, changed in _changes(command)),
    ]
    if after and _unlike(command, after[0]):
        made.append(("the exchange", (*before, after[0], command, *after[1:])))
    return [(what, msgspec.structs.replace(record, commands=changed)) for what, changed in made]


def _changes(command: Command) -> list[tuple[str, Command]]:
    replace = msgspec.structs.replace
    made = [("unit", replace(command, unit="/p7/t7"))]
    if command.seq is not None:
        made.append(("seq", replace(command, seq=command.seq + 100)))
    if command.name is not None:
        made.append(("name", replace(command, name="another name")))
    # These inputs are what the code is given on replay; of a failure, type and message count (K10).
    if command.kind not in ("record_side_effect", "record_choice", "reject_update"):
        made.append(("input", replace(command, encoded=msgspec.Raw(b'[{"type":"Other","message":""}]'))))
        made.append(("options", replace(command, options={**command.options, "priority": 77})))
    return made


def _unlike(one: Command, other: Command) -> bool:
    """Whether two commands differ in what counts, so that their order can be told."""
    return msgspec.structs.replace(one, where=None) != msgspec.structs.replace(other, where=None)


# --- policies ---------------------------------------------------------------------------------


@examples(8)
@given(PLANS, HANDLERS, BATCHES)
def test_a_random_workflow_replays_under_twenty_random_policies(
    plan: Node, handler: Node | None, batches: Batches
) -> None:
    """P1, P2, P3, P4: each run replays strictly from its record, and its log drives the same run again."""
    for seed in range(POLICIES):
        ran = Run(plan, handler, policy=new("nondeterministic", seed=seed)).drive(batches)
        assert story(ran.replay().turns) == story(ran.turns)
        log = get_log(ran.policy_state)
        kept = [choice for record in ran.transcript.turns for choice in record.choices]
        assert [Choice.from_record(choice) for choice in in_full(kept)] == log
        again = harness_of(plan, handler, policy=new("replay", log=log))
        again.start()
        for told in jobs_of(ran):
            again.activate(*told)
        assert again.transcript.to_json() == _untimed(ran, again)


# --- answers that come late, or twice ------------------------------------------------------------


@examples(60)
@given(PLANS, HANDLERS, BATCHES, st.randoms(use_true_random=False))
def test_answers_that_come_late_or_twice_change_nothing_but_the_counter(
    plan: Node, handler: Node | None, batches: Batches, random: Any
) -> None:
    """K11, K17: a late answer to something cancelled, and a second one to something answered, are dropped."""
    ran = Run(plan, handler).drive(batches)
    twice = harness_of(plan, handler)
    twice.start()
    late: list[AnyJob] = []
    extra = 0
    for told in jobs_of(ran):
        repeated = [job for job in late if random.random() < 0.5]
        extra += len(repeated)
        twice.activate(*(random.sample([*repeated], len(repeated))), *told)
        late += [job for job in told if isinstance(getattr(job, "seq", None), int)]
    if late:
        twice.activate(*late, resolve(0, "after the end"))
        extra += len(late) + 1
    emitted = [turn.commands for turn in twice.turns if turn.commands]
    assert emitted == [turn.commands for turn in ran.turns if turn.commands]
    assert twice.dropped == ran.dropped + extra
    assert story(twice.replay().turns) == story(twice.turns)


# --- cancellation at any turn ---------------------------------------------------------------------


@examples(30)
@given(PLANS, HANDLERS, BATCHES)
def test_a_cancellation_at_any_turn_ends_the_run_and_replays(
    plan: Node, handler: Node | None, batches: Batches
) -> None:
    """M6, K17: wherever it comes, the run ends once its shielded clean-up has been answered."""
    ran = Run(plan, handler).drive(batches)
    for turns in range(len(jobs_of(ran)) + 1):
        cut = Run(plan, handler)
        for told in jobs_of(ran)[:turns]:
            cut.tell(told)
        if cut.harness.done:
            continue
        cut.tell([cancel("enough")])
        before = len(cut.harness.turns)
        cut.settle()
        assert len(cut.harness.turns) - before <= len(cut.open) + 20
        assert story(cut.harness.replay().turns) == story(cut.harness.turns)
