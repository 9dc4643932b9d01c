"""K10, K12: which commands are the same, and what the report of two that are not says about them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.kernel.report import Scene, different, mismatch, same_command, unknown_answer
from perdure.model.commands import KINDS, NOTHING, Command

NOW = datetime(2024, 11, 19, 2, 3, 0, tzinfo=UTC)


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def command(kind: str, *values: Any, kwargs: Any = None, **fields: Any) -> Command:
    """A command; what is no field of one is an option."""
    named = {key: fields.pop(key) for key in ("seq", "name", "where") if key in fields}
    stored = {"encoded": raw(list(values)), "encoded_kwargs": raw(kwargs) if kwargs else NOTHING}
    return Command(kind, fields.pop("unit", "/"), options=fields, **stored, **named)


def charge(*values: Any, **fields: Any) -> Command:
    return command("schedule_activity", *values, **{"seq": 4, "name": "charge"} | fields)


def timer(seconds: float, **fields: Any) -> Command:
    return command("start_timer", seconds, **{"seq": 4} | fields)


def stop(seq: int) -> Command:
    return command("cancel_timer", seq=seq)


def failing(kind: str = "fail", **failure: Any) -> Command:
    return command(kind, {"type": "ValueError", "message": "boom", **failure})


def scene(*recorded: Command, position: int = 0, emitted: tuple[Command, ...] = (), **more: Any) -> Scene:
    return replace(Scene("checkout", "run-1", 7, recorded, position, emitted, now=NOW), **more)


# --- K10: the same or not ---------------------------------------------------------------------

ORDER, OTHER = ({"lines": [{"price": 1}, {"price": price}], "a key": 0} for price in (990, 995))

DIFFERENT: list[tuple[Command, Command, str, Any, Any]] = [
    (charge(1), timer(1), "kind", "schedule_activity", "start_timer"),
    (charge(1), charge(1, seq=5), "seq", 4, 5),
    (charge(1), charge(1, unit="/p0"), "unit", "/", "/p0"),
    (charge(1), charge(1, name="refund"), "name", "charge", "refund"),
    (charge(ORDER), charge(OTHER), "input[0].lines[1].price", 990, 995),
    (charge(ORDER), charge({**ORDER, "a key": 1}), 'input[0]["a key"]', 0, 1),
    (charge(1), charge(1.0), "input[0]", 1, 1.0),
    (charge(1), charge(True), "input[0]", 1, True),
    (charge({}), charge([]), "input[0]", {}, []),
    (charge(1, kwargs={"note": "a"}), charge(1, kwargs={"note": "b"}), "kwargs.note", "a", "b"),
    (charge(1, timeout=1), charge(1, timeout=True), "options.timeout", 1, True),
    (charge(1, priority=1), charge(1, priority=1.0), "options.priority", 1, 1.0),
    (charge(1, retry=[1]), charge(1, retry=[True]), "options.retry[0]", 1, True),
    (timer(5), timer(6), "input[0]", 5, 6),
    (failing(), failing(type="KeyError"), "input[0].type", "ValueError", "KeyError"),
    (failing("fail_update"), failing("fail_update", message="bang"), "input[0].message", "boom", "bang"),
    (command("set_patch", name="a"), command("set_patch", name="b", deprecated=True), "name", "a", "b"),
    (stop(1), stop(2), "seq", 1, 2),
    (command("cancel"), command("cancel", unit="/p0"), "unit", "/", "/p0"),
]

ENDED_BADLY = ("fail", "fail_update", "reject_update")
SAME: list[tuple[Command, Command]] = [
    (charge({"a": 1, "b": [2]}), charge({"b": [2], "a": 1})),
    (charge(), Command("schedule_activity", "/", 4, "charge")),
    (charge(1), charge(1, where=("shop.py", 18))),
    (charge(1, timeout=5), charge(1, timeout=5.0)),
    (charge(1, retry={"initial": 1, "attempts": 3}), charge(1, retry={"attempts": 3, "initial": 1.0})),
    (timer(5), timer(5.0)),
    *[(failing(kind), failing(kind, traceback="…", details=[1], retryable=True)) for kind in ENDED_BADLY],
    (command("fail", {"type": "E"}), command("fail", {"type": "E", "message": ""})),
    (command("set_patch", name="a"), command("set_patch", name="a", deprecated=True)),
]


@pytest.mark.parametrize(("recorded", "now", "field", "before", "after"), DIFFERENT)
def test_k10_the_first_field_that_differs_is_named_with_both_values(
    recorded: Command, now: Command, field: str, before: Any, after: Any
) -> None:
    assert different(recorded, now) == (field, before, after)
    assert not same_command(recorded, now)
    error = mismatch(scene(recorded), now)
    assert error.field == field
    assert f"First difference: {field}\n  recorded  {json.dumps(before)}\n  now       {json.dumps(after)}" in str(error)


@pytest.mark.parametrize(("recorded", "now"), SAME)
def test_k10_what_does_not_count_makes_no_difference(recorded: Command, now: Command) -> None:
    assert different(recorded, now) is None
    assert same_command(recorded, now) is same_command(now, recorded) is True


LACKING = [
    *[(charge(1), charge(1, 2), "input[1]"), (charge({}), charge({"a": None}), "input[0].a")],
    *[(charge(), charge(timeout=None), "options.timeout"), (charge(), charge(kwargs={"b": 1}), "kwargs.b")],
]


@pytest.mark.parametrize(("less", "more", "field"), LACKING)
def test_k10_what_only_one_side_has_is_a_difference(less: Command, more: Command, field: str) -> None:
    for one, other in ((less, more), (more, less)):
        error = mismatch(scene(one), other)
        assert error.field == field
        assert "not there" in str(error)


leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5, -3.0]) | st.text(max_size=3)
values = st.recursive(leaves, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=2), v, max_size=3))
commands = st.builds(
    Command,
    kind=st.sampled_from(sorted(KINDS)),
    unit=st.sampled_from(["/", "/p0", "/p1"]),
    seq=st.none() | st.integers(0, 3),
    name=st.none() | st.text(max_size=5),
    encoded=st.just(NOTHING) | st.lists(values, max_size=3).map(raw),
    encoded_kwargs=st.just(NOTHING) | st.dictionaries(st.text(max_size=3), values, max_size=2).map(raw),
    options=st.dictionaries(st.sampled_from(["timeout", "id", "deprecated", "retry"]), values, max_size=2),
    where=st.none() | st.tuples(st.text(max_size=9), st.integers(1, 99)),
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Command, Command]:
    """Two commands that often have most in common."""
    one, other = draw(commands), draw(commands)
    taken = draw(st.sets(st.sampled_from(Command.__struct_fields__)))
    return one, msgspec.structs.replace(one, **{field: getattr(other, field) for field in taken})


@given(pairs())
def test_k10_the_quick_comparison_and_the_thorough_one_agree_in_both_directions(pair: tuple[Command, Command]) -> None:
    one, other = pair
    same = same_command(one, other)
    assert same == (different(one, other) is None)
    assert same == same_command(other, one)
    if one.kind not in {*ENDED_BADLY, "cancel", "set_patch", "start_timer"} and "timeout" not in one.options:
        sides = ([c.kind, c.seq, c.unit, c.name, c.input, dict(c.kwargs), c.options] for c in pair)
        left, right = (json.dumps(side, sort_keys=True) for side in sides)
        assert same == (left == right)


@given(commands)
def test_k10_a_command_is_the_same_after_it_was_stored(now: Command) -> None:
    assert same_command(msgspec.json.decode(msgspec.json.encode(now), type=Command), now)


# --- K12: the likely cause --------------------------------------------------------------------

A, B = charge("a"), charge("b")
SHIP, DONE = charge(1, seq=5, name="ship"), command("complete", "ok")
ID1, ID2 = "0b5c8f1e-5c6e-4d83-9d7c-5a3d4a0a3a55", "7d1f0a52-9d3e-4a4c-8f83-1f0e6a0c9b11"


def swap(before: Any, after: Any, **more: Any) -> tuple[Scene, Command]:
    """The scene of a call whose one argument changed."""
    return scene(charge(before), **more), charge(after)


def around(**surroundings: str) -> dict[str, Any]:
    return {"surroundings": {"SHLVL": "1", **surroundings}}


LIKELY: list[tuple[tuple[Scene, Command | None], str, str]] = [
    ((scene(A, position=1, emitted=(A,)), SHIP), "new code", "holds no more: activity `ship`"),
    ((scene(A), timer(5)), "new code", "Timer (seq 4) stands in front of activity `charge` now"),
    ((scene(A), SHIP), "new code", "Activity `ship` stands in front of activity `charge` now"),
    ((scene(A, following=(charge("a", seq=6),)), SHIP), "new code", "A new call, activity `ship`"),
    ((scene(DONE), A), "new code", "the code goes on with activity `charge`"),
    ((scene(A), charge("a", seq=5)), "new code", "more before this turn"),
    ((scene(A), charge("a", seq=3)), "removed code", "less before this turn"),
    ((scene(A, SHIP, position=1, emitted=(A,)), None), "removed code", "activity `ship`, is gone"),
    ((scene(A, SHIP), charge(1, name="ship")), "removed code", "comes after activity `ship`"),
    ((scene(A, DONE), DONE), "removed code", "activity `charge`, is gone"),
    ((scene(A, SHIP, following=(DONE,)), SHIP), "removed code", "activity `ship` stands in its place"),
    ((scene(failing()), DONE), "removed code", "what raised the error is gone"),
    ((scene(command("set_patch", name="p")), A), "removed code", "`deprecate_patch`"),
    ((scene(command("set_patch", name="p"), A), A), "removed code", "`deprecate_patch`"),
    ((scene(A, SHIP, following=(charge("a", seq=5),)), SHIP), "changed order", "have changed places"),
    ((scene(A, charge(unit="/p1", name="ship")), charge(name="ship")), "changed order", "branches have changed places"),
    ((scene(A, B), B), "set order", "unless a call was taken out"),
    ((scene(A, B, following=(A,)), B), "set order", "another order. Put it"),
    (swap("{'a', 'b'}", "{'b', 'a'}"), "set order", "`sorted(...)`"),
    ((scene(charge(kwargs={"x": [ID1, ID2]})), charge(kwargs={"x": [ID2, ID1]})), "set order", "`sorted(...)`"),
    ((scene(A), charge("a", unit="/p1")), "moved", "another unit: /p1, not /"),
    ((scene(A), charge("a", name="pay")), "changed name", "but for its name, which was activity `charge`"),
    (swap(2, 1, **around()), "changed argument", "Activity `charge` is given another value"),
    (swap({"x": ["a", "b"]}, {"x": ["b", "a"]}), "set order", "`sorted(...)`"),
    ((scene(charge(1, 2)), charge(2, 1)), "changed argument", "another value"),
    ((scene(timer(5)), timer(6)), "changed argument", "another duration"),
    ((scene(failing()), failing(message="bang")), "changed argument", "another error"),
    ((scene(stop(1), stop(3)), stop(2)), "changed argument", "seq 2, and not"),
    (swap("us", "eu", **around(REGION="eu")), "environment", "`REGION`"),
    (swap("/a/x.csv", "/srv/b/x.csv", **around(HOME="/srv/b")), "environment", "`HOME`"),
    (swap(5432, 8080, **around(PORT="8080")), "environment", "`PORT`"),
    ((scene(A, **around(QUEUE="fast")), charge("a", queue="fast")), "changed option", "`queue`"),
    ((scene(charge("a", queue="slow"), **around(QUEUE="fast")), charge("a", queue="fast")), "environment", "`QUEUE`"),
    (swap("/srv/b/x", "/srv/b/y", **around(HOME="/srv/b")), "changed argument", "another value"),
    (swap("2024-11-19T02:03:00Z", "2025-01-02T09:00:00.5Z"), "clock", "`now()`"),
    (swap("report-2024-11-19.csv", "report-2025-01-02.csv"), "clock", "`now()`"),
    (swap(NOW.timestamp() + 5, NOW.timestamp() + 86_400), "clock", "`now()`"),
    (swap(int(NOW.timestamp() * 1000), int(NOW.timestamp() * 1000) + 99), "clock", "`now()`"),
    (swap(f"k-{int(NOW.timestamp())}", f"k-{int(NOW.timestamp()) + 99}"), "clock", "`now()`"),
    (swap(NOW.timestamp(), NOW.timestamp() + 60, now=None), "changed argument", "another value"),
    (swap("2024-11-19 a", "2025-01-02 b"), "changed argument", "another value"),
    (swap(int(NOW.timestamp()) - 10_000_000, int(NOW.timestamp())), "changed argument", "another value"),
    (swap(f"order/{ID1}", f"order/{ID2}"), "randomness", "`uuid4()`"),
    (swap("3f9a0c1de2", "77b2ff0a91"), "randomness", "`random()`"),
    (swap("Zk3_p9QwLm2xAb7T", "aB4-xY8mNp1QrS6t"), "randomness", "`random()`"),
    (swap("<Cart at 0x7f10aa20>", "<Cart at 0x7f33bb40>"), "randomness", "addresses in memory"),
    (swap(0.8444218515250481, 0.7579544029403025), "randomness", "`random()`"),
    (swap(2**61 + 7, 2**60 + 9), "randomness", "`random()`"),
    ((scene(timer(1.284461)), timer(1.911023)), "randomness", "`random()`"),
    (swap(0.5, 0.25), "changed argument", "another value"),
    ((scene(A), failing()), "early error", '"boom"'),
    ((scene(A, position=1, emitted=(A,)), failing()), "early error", '"boom"'),
    ((scene(A), DONE), "early return", "before it came to activity `charge`"),
    ((scene(A, position=1, emitted=(A,)), DONE), "early return", "it went on"),
    ((scene(A, SHIP, position=1, emitted=(DONE,)), None), "early return", "before it came to activity `ship`"),
]


@pytest.mark.parametrize(("case", "cause", "words"), LIKELY)
def test_k12_the_likely_cause_follows_from_the_evidence(
    case: tuple[Scene, Command | None], cause: str, words: str
) -> None:
    error = mismatch(*case)
    assert error.cause == cause
    text = " ".join(str(error).split())
    assert words in text[text.index(f"Likely cause: {cause}. ") : text.index("What happens next: Nothing was commi")]


EARLY = [(scene(A), None), (scene(A), failing()), (scene(A), DONE), (scene(A, position=1), failing()), (scene(), None)]


@pytest.mark.parametrize(("where", "now"), EARLY)
def test_k11_an_exception_before_the_end_of_the_record_is_named_with_the_line_that_raised_it(
    where: Scene, now: Command | None
) -> None:
    with pytest.raises(ValueError, match="Expecting") as raised:
        json.loads("{")
    error = mismatch(where, now, raised.value)
    assert error.cause == "early error"
    assert "did not: JSONDecodeError: Expecting" in " ".join(str(error).split())
    assert "decoder.py:" in str(error)
    assert mismatch(scene(failing()), failing(message="bang"), ValueError("bang")).cause == "changed argument"


def test_the_same_command_on_both_sides_is_called_a_bug_of_the_engine() -> None:
    error = mismatch(scene(A), A)
    assert (error.field, error.cause) == (None, None)
    assert "This is a bug in Perdure" in str(error)


# --- K12: the text ----------------------------------------------------------------------------

TITLE = "Nondeterminism: turn 7 of workflow `checkout`, run run-1.\n"
NEXT = """
What happens next: Nothing was committed; the run is parked, not failed. Run the code that made the
record, mend the code, or guard the change with patched("...")."""

CHANGED = """Command 2 does not match; 2 are recorded.

        | recorded                     | now
--------+------------------------------+-----------------------------
command | activity #4 `charge` (seq 4) | activity #4 `charge` (seq 4)
unit    | /p0                          | /p0
source  | not in this record           | shop.py:18
input   | ["o-1",990]                  | ["o-1",995]
options | {"timeout":5}                | {"timeout":6}

First difference: input[1]
  recorded  990
  now       995
Also different:
  options.timeout: recorded 5, now 6

Likely cause: changed argument. Activity `charge` is given another value.
"""

MISSING = """Command 2 does not match; 2 are recorded.

        | recorded         | now
--------+------------------+------------------------
command | timer #1 (seq 5) | nothing: the turn ended
unit    | /                |
source  | shop.py:20       |
input   | [60]             |

First difference: command
  recorded  timer #1 (seq 5)
  now       nothing: the turn ended

Likely cause: removed code. The recorded call, timer (seq 5), is gone, or waits now for something
that this turn does not bring.
"""

EXTRA = """Command 1 does not match; 0 are recorded.

        | recorded                  | now
--------+---------------------------+--------------------
command | nothing more in this turn | set state #1 `paid`
unit    |                           | /
source  |                           | shop.py:9
input   |                           | [true]

First difference: command
  recorded  nothing more in this turn
  now       set state #1 `paid`

Likely cause: new code. The record of this turn holds no more: set state `paid` was added, or an
await in front of it was removed.
"""


BEFORE = charge("o-1", 990, unit="/p0", timeout=5)
AFTER = charge("o-1", 995, unit="/p0", timeout=6, where=("shop.py", 18))
LOST, NEW = timer(60, seq=5, where=("shop.py", 20)), command("set_state", True, name="paid", where=("shop.py", 9))
REPORTS: list[tuple[str, Scene, Command | None, Command | None, str]] = [
    (CHANGED, scene(A, BEFORE, position=1, emitted=(A,), ordinals={"schedule_activity": 2}), BEFORE, AFTER, "input[1]"),
    (MISSING, scene(A, LOST, position=1, emitted=(A,), ordinals={"schedule_activity": 2}), LOST, None, "command"),
    (EXTRA, scene(), None, NEW, "command"),
]


@pytest.mark.parametrize(("text", "where", "recorded", "now", "field"), REPORTS)
def test_k12_a_report_shows_both_sides_the_difference_the_cause_and_the_next_step(
    text: str, where: Scene, recorded: Command | None, now: Command | None, field: str
) -> None:
    error = mismatch(where, now)
    assert str(error) == TITLE + text + NEXT
    assert (error.turn, error.recorded, error.now, error.field) == (7, recorded, now, field)


def test_k11_an_answer_that_nothing_asked_for_is_reported_with_its_number() -> None:
    error = unknown_answer(scene(A, emitted=(A,)), "resolved", 9)
    assert (error.turn, error.recorded, error.now, error.field) == (7, "resolved", None, "seq")
    assert "\nanswer | an answer to seq 9: resolved | no command with seq 9\n" in str(error)
    assert "Likely cause: unknown answer. The code has emitted no command of this number" in str(error)
    assert str(error).endswith(NEXT)


@pytest.mark.parametrize("asked", [None, timer(5, seq=9, where=("shop.py", 3))])
def test_k11_an_answer_for_another_kind_names_the_command_that_has_its_number_now(asked: Command | None) -> None:
    now = timer(5, seq=9, where=("shop.py", 3))
    error = unknown_answer(scene(emitted=() if asked else (now,)), "resolved", 9, asked)
    assert (error.now, error.field, error.cause) == (now, "kind", "unknown answer")
    assert [line.rpartition("| ")[2] for line in str(error).splitlines()[5:8]] == ["timer (seq 9)", "/", "shop.py:3"]


def test_k12_of_many_differences_five_are_shown_and_the_rest_is_counted() -> None:
    text = str(mismatch(*swap(list(range(20)), [n + 0.5 for n in range(20)])))
    assert [f"input[0][{n}]" in text for n in range(6)] == [True] * 5 + [False]
    assert "\n  and 15 more\n" in text


def test_k12_long_values_are_shown_around_their_first_difference_within_a_hundred_columns() -> None:
    before, after = (dict.fromkeys(("note", "more"), f"{'x' * 300}{word}{'x' * 300}") for word in ("before", "after"))
    lines = str(mismatch(*swap(before, after))).splitlines()
    assert max(map(len, lines)) <= 100
    assert [line[-1] for line in lines if line.startswith("  recorded  …x") and "xbeforex" in line] == ["…"]
    assert ["xbefore" in line and "xafter" in line for line in lines if "input[0].more" in line] == [True]


def test_k12_what_would_break_a_line_or_hide_is_written_out() -> None:
    text = str(mismatch(scene(charge("a\u2028b")), charge("a\x1b[31mb", name="pay\n\u202e")))
    assert all(line.isprintable() for line in text.splitlines())
    assert "`pay\\n\\u202e`" in text


@given(pairs(), st.booleans(), st.integers(0, 2), st.sampled_from([None, ValueError("boom"), KeyboardInterrupt()]))
def test_k12_whatever_differs_there_is_a_report_that_holds_both_sides(
    pair: tuple[Command, Command], ended: bool, position: int, raised: BaseException | None
) -> None:
    one, other = pair
    where = scene(one, other, position=position, emitted=(other,), following=(one,), **around(REGION="eu-1"))
    now = None if ended else other
    error = mismatch(where, now, raised)
    assert (error.recorded, error.now) == ((one, other, None)[position], now)
    same = error.recorded is not None and now is not None and same_command(error.recorded, now)
    assert error.cause in ({None} if same else {cause for _, cause, _ in LIKELY})
    table = str(error).split("\n\n")[1]
    for side in (error.recorded, now):
        assert side is None or side.unit in table
        assert side is None or side.seq is None or f"(seq {side.seq})" in table
