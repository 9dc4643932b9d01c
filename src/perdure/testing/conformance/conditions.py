"""Conditions: what finds a run and what does not, by its fields and by its attributes (section 6)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.stores.port import Store
from perdure.stores.records import EVERY, AllOf, AnyOf, Closing, Compare, Condition, Not, Operator, Parent
from perdure.testing.conformance.expecting import same
from perdure.testing.conformance.making import a_start, a_successor, an_id
from perdure.testing.conformance.stage import Stores, begin, hire, workflow_ids

HOSTILE = (
    "'; drop table runs; --",
    '" or 1 = 1 --',
    "o'neill",
    "?1",
    ":name",
    "$x",
    "{comparison}",
    "%s",
    "a\\",
    "/* */",
    "null",
    "\N{WHITE SMILING FACE}\N{GRINNING FACE}",
)


async def _make(store: Store, **runs: Any) -> None:
    """Start a run for each of these, with these attributes; the workflow id is the name."""
    for name, attributes in runs.items():
        await begin(store, name, attributes=msgspec.json.encode(attributes))


async def _found(store: Store, wanted: Condition) -> list[str]:
    """The workflow ids of those that fit, by name; as many as are counted, and none of them twice."""
    found = await store.list_runs(wanted, 1000)
    same(await store.count_runs(wanted), len(found))
    same([run.number for run in found], sorted({run.number for run in found}, reverse=True))
    return sorted(workflow_ids(found))


def _by(name: str, operator: Operator, value: Any) -> Compare:
    return Compare(name, operator, value, attribute=True)


async def an_attribute_is_compared_with_each_operator(stores: Stores) -> None:
    """Numbers by size, whole or not, texts by code points."""
    store = await stores.open()
    await _make(store, a={"n": 1}, b={"n": 2}, c={"n": 2.5}, d={"n": 3}, e={"t": "k"}, f={"t": "m"}, g={})
    same(await _found(store, _by("n", "=", 2)), ["b"])
    same(await _found(store, _by("n", "=", 2.0)), ["b"])
    same(await _found(store, _by("n", "<", 2.5)), ["a", "b"])
    same(await _found(store, _by("n", "<=", 2.5)), ["a", "b", "c"])
    same(await _found(store, _by("n", ">", 2)), ["c", "d"])
    same(await _found(store, _by("n", ">=", 2)), ["b", "c", "d"])
    same(await _found(store, _by("n", "in", (3, 1, 7))), ["a", "d"])
    same(await _found(store, _by("t", "=", "k")), ["e"])
    same(await _found(store, _by("t", "<", "m")), ["e"])
    same(await _found(store, _by("t", "<=", "m")), ["e", "f"])
    same(await _found(store, _by("t", ">", "k")), ["f"])
    same(await _found(store, _by("t", ">=", "k")), ["e", "f"])
    same(await _found(store, _by("t", "in", ("k", "x"))), ["e"])


async def a_missing_attribute_fits_no_comparison(stores: Stores) -> None:
    """Nothing compares with what is not there; so `not` finds it."""
    store = await stores.open()
    await _make(store, here={"x": 5}, nothing={}, null={"x": None}, other={"y": 5})
    for operator, value in (("=", 5), ("<", 9), ("<=", 9), (">", 1), (">=", 1), ("in", (5, 6))):
        same(await _found(store, _by("x", operator, value)), ["here"])  # type: ignore[reportArgumentType]
        same(await _found(store, Not(_by("x", operator, value))), ["nothing", "null", "other"])  # type: ignore[reportArgumentType]
    same(await _found(store, Not(_by("x", "=", 6))), ["here", "nothing", "null", "other"])
    same(await _found(store, _by("x", "like", "%")), [])


async def values_of_different_types_do_not_compare(stores: Stores) -> None:
    """A number is never equal to, before or after a text."""
    store = await stores.open()
    await _make(store, number={"x": 5}, text={"x": "5"}, word={"x": "abc"}, empty={"x": ""})
    same(await _found(store, _by("x", "=", 5)), ["number"])
    same(await _found(store, _by("x", "=", "5")), ["text"])
    same(await _found(store, _by("x", "<", "a")), ["empty", "text"])
    same(await _found(store, _by("x", "<=", "")), ["empty"])
    same(await _found(store, _by("x", ">", 0)), ["number"])
    same(await _found(store, _by("x", ">=", "")), ["empty", "text", "word"])
    same(await _found(store, _by("x", "in", (5, "abc"))), ["number", "word"])
    same(await _found(store, _by("x", "like", "5")), ["text"])
    same(await _found(store, Compare("priority", "=", "0")), [])
    same(await _found(store, Compare("id", "=", 5)), [])


async def bools_compare_as_0_and_1(stores: Stores) -> None:
    """True is 1, false is 0."""
    store = await stores.open()
    await _make(store, yes={"x": True}, no={"x": False}, one={"x": 1}, word={"x": "true"})
    same(await _found(store, _by("x", "=", True)), ["one", "yes"])
    same(await _found(store, _by("x", "=", 0)), ["no"])
    same(await _found(store, _by("x", ">", False)), ["one", "yes"])
    same(await _found(store, _by("x", "in", (False, "true"))), ["no", "word"])


async def numbers_compare_exactly(stores: Stores) -> None:
    """Of 64 bits no bit is lost, and a tenth is the same tenth."""
    store = await stores.open()
    large = 2**63 - 1
    await _make(
        store, a={"x": large}, b={"x": large - 1}, c={"x": -(2**63)}, d={"x": 0.1}, e={"x": 1e300}, f={"x": -0.0}
    )
    same(await _found(store, _by("x", "=", large)), ["a"])
    same(await _found(store, _by("x", "<", large)), ["b", "c", "d", "f"])
    same(await _found(store, _by("x", "<", -(2**63) + 1)), ["c"])
    same(await _found(store, _by("x", "=", 0.1)), ["d"])
    same(await _found(store, _by("x", ">", 9.3e18)), ["e"])
    same(await _found(store, _by("x", "=", 0)), ["f"])


async def a_list_is_each_of_its_values(stores: Stores) -> None:
    """A run is found if one of them fits, once."""
    store = await stores.open()
    await _make(store, a={"x": ["red", "blue"]}, b={"x": ["blue", 7, None, "blue"]}, c={"x": []}, d={"x": "red"})
    same(await _found(store, _by("x", "=", "blue")), ["a", "b"])
    same(await _found(store, _by("x", "=", "red")), ["a", "d"])
    same(await _found(store, _by("x", "=", 7)), ["b"])
    same(await _found(store, _by("x", ">", "a")), ["a", "b", "d"])
    same(await _found(store, AllOf((_by("x", "=", "red"), _by("x", "=", "blue")))), ["a"])
    same(await _found(store, Not(_by("x", "=", "red"))), ["b", "c"])
    same(await _found(store, _by("x", "in", ("red", "blue", 7))), ["a", "b", "d"])


async def what_cannot_be_compared_is_found_by_nothing(stores: Stores) -> None:
    """What is nested, and whole numbers of more than 64 bits; the attributes beside them are found."""
    store = await stores.open()
    await _make(store, a={"x": {"y": 1}, "z": 1}, b={"x": [[1], {"y": 1}], "z": 1}, c={"x": 2**64, "z": 1})
    for value in (1, "y", "1", 2.0**64):
        same(await _found(store, _by("x", "=", value)), [])
    same(await _found(store, _by("x", ">", 0)), [])
    same(await _found(store, _by("z", "=", 1)), ["a", "b", "c"])


async def like_knows_two_wildcards_and_no_more(stores: Stores) -> None:
    """`%` is any text, also none, `_` is any one character, and everything else is itself, its case included."""
    store = await stores.open()
    texts = [
        "order-1",
        "order-22",
        "Order-1",
        "my order-1",
        "",
        "o*",
        "o?",
        "o[a]",
        "oa",
        "x%y",
        "a\nb",
        "\u00e9t\u00e9",
    ]
    for number, text in enumerate(texts):
        await begin(store, f"{number:02}", attributes=msgspec.json.encode({"x": text}))

    async def like(pattern: str) -> list[str]:
        return [texts[int(id)] for id in await _found(store, _by("x", "like", pattern))]

    same(await like("order-%"), ["order-1", "order-22"])
    same(await like("order-_"), ["order-1"])
    same(await like("%order%"), ["order-1", "order-22", "my order-1"])
    same(await like("%-1"), ["order-1", "Order-1", "my order-1"])
    same(await like("_rder-1"), ["order-1", "Order-1"])
    same(await like("o*"), ["o*"])
    same(await like("o?"), ["o?"])
    same(await like("o[a]"), ["o[a]"])
    same(await like("o[%"), ["o[a]"])
    same(await like("%[a]"), ["o[a]"])
    same(await like("_*%"), ["o*"])
    same(await like("%?"), ["o?"])
    same(await like("o_"), ["o*", "o?", "oa"])
    same(await like("x%y"), ["x%y"])
    same(await like("x_y"), ["x%y"])
    same(await like("a_b"), ["a\nb"])
    same(await like("_t_"), ["\u00e9t\u00e9"])
    same(await like("\u00e9%"), ["\u00e9t\u00e9"])
    same(await like(""), [""])
    same(await like("%"), texts)
    same(await like("_%_%_%_%_%_%_"), [text for text in texts if len(text) >= 7])


async def texts_compare_by_code_points(stores: Stores) -> None:
    """Not by a language, and not by UTF-16: what is beyond the first plane comes last."""
    store = await stores.open()
    texts = [
        "",
        "A",
        "Z",
        "a",
        "a ",
        "a\u0301",
        "a\U0010ffff",
        "a\U0010ffff!",
        "b",
        "z",
        "\u00e1",
        "\ud7ff",
        "\uffff",
        "\U0001f600",
        "\U0010ffff",
        "\U0010ffff!",
    ]
    for number, text in enumerate(texts):
        await begin(store, f"{number:02}", attributes=msgspec.json.encode({"x": text}))
    for text in texts:
        smaller = [f"{number:02}" for number, each in enumerate(texts) if each < text]
        same(await _found(store, _by("x", "<", text)), smaller)
        beginning = [f"{number:02}" for number, each in enumerate(texts) if each.startswith(text)]
        same(await _found(store, _by("x", "like", f"{text}%")), beginning)


async def hostile_texts_are_only_texts(stores: Stores) -> None:
    """As ids, as values, as patterns and as the names of attributes: each finds its own run, and nothing is harmed."""
    store = await stores.open()
    for text in HOSTILE:
        await begin(store, text, attributes=msgspec.json.encode({text: text}))
    for text in HOSTILE:
        same(await _found(store, Compare("id", "=", text)), [text])
        same(await _found(store, Compare("id", "in", (text, "other"))), [text])
        same(await _found(store, _by(text, "=", text)), [text])
        same(await _found(store, _by(text, "like", text)), [text])
        same(await _found(store, Not(_by(text, ">=", text))), sorted(set(HOSTILE) - {text}))
        same(await _found(store, _by("x", "=", text)), [])
    same(await store.count_runs(EVERY), len(HOSTILE))


async def names_of_attributes_are_told_apart(stores: Stores) -> None:
    """By every character; an attribute may have the name of a field, and is another thing."""
    store = await stores.open()
    await _make(store, a={"x": 1}, b={"X": 1}, c={"x ": 1}, d={"status": "failed"}, e={"": 1})
    same(await _found(store, _by("x", "=", 1)), ["a"])
    same(await _found(store, _by("X", "=", 1)), ["b"])
    same(await _found(store, _by("", "=", 1)), ["e"])
    same(await _found(store, _by("status", "=", "failed")), ["d"])
    same(await _found(store, Compare("status", "=", "failed")), [])


async def every_field_is_compared(stores: Stores) -> None:
    """Status, type, id, run id, queue, priority, times, blocked, generation and parent."""
    store = await stores.open()
    now = stores.clock.now_us()
    parent = Parent(run_id=an_id("a first"), seq=0)
    await begin(store, "a", workflow="w1", queue="q1", priority=-1)
    stores.clock.advance(1)
    await begin(store, "b", workflow="w2", queue="q2", priority=4, parent=parent)
    await store.close_run("b", None, Closing("failed"))
    for wanted, found in (
        (Compare("status", "=", "failed"), ["b"]),
        (Compare("status", "like", "%ing"), ["a"]),
        (Compare("type", ">", "w1"), ["b"]),
        (Compare("id", "<", "b"), ["a"]),
        (Compare("run_id", "=", an_id("a first")), ["a"]),
        (Compare("run_id", "like", f"{an_id('b first')[:9]}%"), ["b"]),
        (Compare("queue", "in", ("q1", "q3")), ["a"]),
        (Compare("priority", "<", 0), ["a"]),
        (Compare("started", ">", now), ["b"]),
        (Compare("closed", ">=", now), ["b"]),
        (Compare("blocked", "=", True), []),
        (Compare("blocked", "in", (True, False)), ["a", "b"]),
        (Compare("generation", "=", 0), ["a", "b"]),
        (Compare("parent", "=", parent.run_id), ["b"]),
        (Compare("parent", "like", "%"), ["b"]),
        (Not(Compare("parent", "=", parent.run_id)), ["a"]),
    ):
        same(await _found(store, wanted), found)


async def generations_are_told_apart(stores: Stores) -> None:
    """Each has its number, and its own attributes."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1", attributes=b'{"step":1}')
    successor = a_successor(run, generation=1, attributes=b'{"step":2}')
    await worker.try_commit(run, closing=Closing("continued", b'"x"'), successor=successor)
    same([run.status for run in await store.list_runs(Compare("generation", "=", 0), 10)], ["continued"])
    same([run.status for run in await store.list_runs(Compare("generation", ">", 0), 10)], ["running"])
    same([run.status for run in await store.list_runs(_by("step", "=", 2), 10)], ["running"])
    same(await _found(store, _by("step", "<", 3)), ["o-1", "o-1"])


async def attributes_are_found_as_they_are_now(stores: Stores) -> None:
    """A turn that changes them changes what finds the run; so does none other, and they outlive the run."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1", attributes=b'{"step":1,"kept":"a","tags":["x","y"]}')
    run = await worker.commit(run, attributes=b'{"step":2,"kept":"a","tags":["y","z"],"new":1}')
    same(await _found(store, _by("step", "=", 1)), [])
    for wanted in (_by("step", "=", 2), _by("kept", "=", "a"), _by("tags", "=", "z"), _by("new", "=", 1)):
        same(await _found(store, wanted), ["o-1"])
    same(await _found(store, _by("tags", "=", "x")), [])
    run = await worker.commit(run)
    run = await worker.commit(run, attributes=b'{"step":2.0,"kept":true}')
    same(await _found(store, _by("tags", "like", "%")), [])
    same(await _found(store, AllOf((_by("step", "=", 2), _by("kept", "=", 1)))), ["o-1"])
    await worker.try_commit(run, closing=Closing("completed", b"1"))
    store = await stores.reopen(store)
    same(await _found(store, AllOf((_by("step", "=", 2), _by("kept", "=", 1)))), ["o-1"])


async def conditions_are_put_together(stores: Stores) -> None:
    """All of them, one of them, not; within each other; of none, all hold and none is the one."""
    store = await stores.open()
    await _make(store, a={"x": 1, "y": 1}, b={"x": 1, "y": 2}, c={"x": 2, "y": 1}, d={})
    one, two = _by("x", "=", 1), _by("y", "=", 1)
    same(await _found(store, AllOf((one, two))), ["a"])
    same(await _found(store, AnyOf((one, two))), ["a", "b", "c"])
    same(await _found(store, Not(AnyOf((one, two)))), ["d"])
    same(await _found(store, Not(AllOf((one, two)))), ["b", "c", "d"])
    same(await _found(store, AllOf((AnyOf((one, two)), Not(AllOf((one, two)))))), ["b", "c"])
    same(await _found(store, AnyOf((AllOf((one, Not(two))), Compare("id", "=", "d")))), ["b", "d"])
    same(await _found(store, Not(Not(one))), ["a", "b"])
    same(await _found(store, EVERY), ["a", "b", "c", "d"])
    same(await _found(store, AllOf((EVERY, one, AllOf((two, EVERY))))), ["a"])
    same(await _found(store, AnyOf(())), [])
    same(await _found(store, Not(AnyOf(()))), ["a", "b", "c", "d"])
    same(await _found(store, Not(EVERY)), [])


async def long_and_deep_conditions_are_no_harder(stores: Stores) -> None:
    """A thousand and more parts, and fifty within each other, as a filter may have."""
    store = await stores.open()
    await _make(store, a={"x": 7}, b={"x": 1200})
    many = tuple(_by("x", "=", number) for number in range(1300))
    same(await _found(store, AnyOf(many)), ["a", "b"])
    same(await _found(store, AllOf(tuple(Not(each) for each in many[:1000]))), ["b"])
    same(await _found(store, _by("x", "in", tuple(range(3000)))), ["a", "b"])
    deep: Condition = _by("x", "=", 7)
    for _ in range(25):
        deep = (
            Not(AllOf((deep, AnyOf((deep,)))))
            if isinstance(deep, Compare)
            else Not(AnyOf((deep, Compare("id", "=", "?"))))
        )
    same(await _found(store, deep), ["b"])
    await _make(store, c={"x": "a" * 300})
    same(await _found(store, _by("x", "like", "%_" * 300)), ["c"])
    same(await _found(store, _by("x", "like", "%_" * 301)), [])
    same(await _found(store, _by("x", "like", "%a" * 200 + "b")), [])


async def pages_are_whole_while_runs_are_started(stores: Stores) -> None:
    """The newest first; what is started after the first page is on none of the next, and nothing twice or never."""
    store, other = await stores.open(), await stores.open()
    for number in range(10):
        await begin(store, f"o-{number}", attributes=b'{"x":%d}' % (number % 2))
    for name, wanted in (("every", EVERY), ("some", _by("x", "=", 1)), ("others", Not(_by("x", "=", 1)))):
        there = workflow_ids(await store.list_runs(wanted, 1000))
        seen: list[str] = []
        before: int | None = None
        while page := await store.list_runs(wanted, 2, before):
            seen += workflow_ids(page)
            before = page[-1].number
            await other.start_run(a_start(f"{name} {before}", attributes=b'{"x":%d}' % (before % 2)))
        same(seen, there)
        same(len(seen) >= 5, True)
