"""Questions: asked by a process without the code, answered by one that has it."""

from __future__ import annotations

from perdure.errors import NotFound
from perdure.stores.records import Closing
from perdure.testing.conformance.expecting import raises, same
from perdure.testing.conformance.making import a_start, an_id
from perdure.testing.conformance.stage import Stores, begin

ORDER = ("order",)


async def a_question_is_seen_by_whoever_has_the_workflow(stores: Stores) -> None:
    """It carries the run, the name and the arguments as they were given."""
    store, other = await stores.open(), await stores.open()
    run = await begin(store, "o-1")
    question = await store.ask("o-1", None, "state \u00e4", b'[ 1.0,  "x" ]')
    same((question.run, question.run_id, question.workflow), (run.number, run.facts.run_id, "order"))
    same((question.name, question.arguments), ("state \u00e4", b'[ 1.0,  "x" ]'))
    same(await other.list_questions(("other", "order")), [question])
    same((await other.list_questions(("other",)), await other.list_questions(())), ([], []))


async def questions_are_listed_in_the_order_in_which_they_were_asked(stores: Stores) -> None:
    """Each has a number of its own, also when others are gone."""
    store = await stores.open()
    await begin(store, "o-1")
    await begin(store, "o-2")
    asked = [await store.ask(f"o-{i % 2 + 1}", None, f"q-{i}", b"[]") for i in range(5)]
    same(await store.list_questions(ORDER), asked)
    await store.forget_question(asked[4].number)
    last = await store.ask("o-1", None, "last", b"[]")
    same(await store.list_questions(ORDER), [*asked[:4], last])
    same(len({question.number for question in [*asked[:4], last]}), 5)


async def an_answer_is_taken_once(stores: Stores) -> None:
    """None while there is none; the answer to the byte; and then the question is gone."""
    store, other = await stores.open(), await stores.open()
    await begin(store, "o-1")
    question = await store.ask("o-1", None, "state", b"[]")
    same(await store.take_answer(question.number), None)
    await other.answer(question.number, b'{ "value" : 1.0 }')
    same(await other.list_questions(ORDER), [])
    same(await store.take_answer(question.number), b'{ "value" : 1.0 }')
    same((await store.take_answer(question.number), (await store.counts())["questions"]), (None, 0))


async def answers_are_not_mixed_up(stores: Stores) -> None:
    """Each goes to its own question."""
    store = await stores.open()
    await begin(store, "o-1")
    asked = [await store.ask("o-1", None, "state", b"[]") for _ in range(3)]
    for question in (asked[2], asked[0]):
        await store.answer(question.number, b"%d" % question.number)
    same(await store.list_questions(ORDER), [asked[1]])
    wanted = [b"%d" % asked[0].number, None, b"%d" % asked[2].number]
    same([await store.take_answer(question.number) for question in asked], wanted)


async def a_question_is_forgotten(stores: Stores) -> None:
    """Whoever asked has gone: nobody answers it any more, and a late answer is dropped."""
    store = await stores.open()
    await begin(store, "o-1")
    question, other = await store.ask("o-1", None, "state", b"[]"), await store.ask("o-1", None, "state", b"[]")
    await store.forget_question(question.number)
    same(await store.list_questions(ORDER), [other])
    await store.answer(question.number, b"1")
    same((await store.take_answer(question.number), (await store.counts())["questions"]), (None, 1))
    await store.forget_question(question.number)


async def a_question_may_be_forgotten_with_its_answer(stores: Stores) -> None:
    """Also one that was answered just before: nothing of it is left."""
    store = await stores.open()
    await begin(store, "o-1")
    question = await store.ask("o-1", None, "state", b"[]")
    await store.answer(question.number, b"1")
    await store.forget_question(question.number)
    same((await store.take_answer(question.number), (await store.counts())["questions"]), (None, 0))
    same(await store.list_questions(ORDER), [])


async def a_run_that_has_ended_can_be_asked(stores: Stores) -> None:
    """Queries are answered from history, whether a run is open or not."""
    store = await stores.open()
    run = await begin(store, "o-1")
    await store.close_run("o-1", None, Closing("completed", b"[]"))
    same((await store.ask("o-1", run.facts.run_id, "state", b"[]")).run, run.number)


async def a_question_goes_to_the_newest_run_or_to_the_one_that_is_named(stores: Stores) -> None:
    """`NotFound` where there is none."""
    store = await stores.open()
    old = await begin(store, "o-1")
    new = (await store.start_run(a_start("o-1", run="second", id_policy="terminate"))).run
    same((await store.ask("o-1", None, "state", b"[]")).run, new.number)
    same((await store.ask("o-1", old.facts.run_id, "state", b"[]")).run, old.number)
    await raises(NotFound, store.ask("o-2", None, "state", b"[]"))
    await raises(NotFound, store.ask("o-1", an_id("nobody"), "state", b"[]"))
    same((await store.counts())["questions"], 2)
