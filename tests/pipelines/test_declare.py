"""Declaring pipelines: what is refused at deploy, with the line (L2), and what counts as a change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import InvalidValue, NotFound, UsageError
from perdure.pipelines import Pipeline, PipelinePolicy, Prepared, Topic
from perdure.pipelines.digest import digest_of
from perdure.pipelines.scheduling import Consumer, Producer
from perdure.pipelines.validation import validate


async def poll(ctx: Any, cursor: str | None) -> str | None:
    return cursor


class Sheet:
    async def prepare(self, ctx: Any, state: int | None) -> Prepared:
        return Prepared()

    async def mutate(self, ctx: Any, prepared: Prepared) -> float:
        return 0.5

    async def reconcile(self, ctx: Any, prepared: Prepared) -> float | None: ...

    async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> int: ...


class Small:
    async def prepare(self, ctx: Any, state: Any) -> Prepared: ...


def declared() -> tuple[Pipeline, Topic[str]]:
    """A pipeline in which nothing is wrong."""
    mail = Pipeline("mail-to-sheet")
    inbox = mail.topic("inbox", str)
    mail.producer(every="5m", publishes=[inbox])(poll)
    mail.consumer(inbox)(Sheet)
    return mail, inbox


def test_a_good_declaration_passes_and_says_what_the_scheduler_begins_with() -> None:
    mail, _ = declared()
    assert validate(mail) is mail
    state = mail.scheduled(PipelinePolicy(retries=2))
    assert state.producers == (Producer("poll", every="5m"),)
    assert state.consumers == (Consumer("Sheet", topics=("inbox",)),)
    assert state.policy.retries == 2
    assert mail.producers[0].state_type == str | None
    assert (mail.consumers[0].state_type, mail.consumers[0].result_type) == (int | None, float)


def test_the_decorators_give_back_what_they_declare() -> None:
    mail, inbox = declared()
    assert mail.producer(every=1, name="again")(poll) is poll
    assert mail.consumer(inbox, name="again")(Small) is Small


# --- refusals -----------------------------------------------------------------------------------

Mistake = Callable[[Pipeline, Topic[str]], object]


def a_second_consumer(mail: Pipeline, inbox: Topic[str]) -> object:
    return mail.consumer(inbox)(Small)


def a_topic_of_another_pipeline(mail: Pipeline, inbox: Topic[str]) -> object:
    return mail.producer(every=1, publishes=[Pipeline("other").topic("theirs", str)], name="p")(poll)


def a_ring(mail: Pipeline, inbox: Topic[str]) -> object:
    one, two = mail.topic("one", str), mail.topic("two", str)
    mail.consumer(one, publishes=[two], name="A")(Small)
    return mail.consumer(two, publishes=[one], name="B")(Small)


def a_ring_of_one(mail: Pipeline, inbox: Topic[str]) -> object:
    one = mail.topic("one", str)
    return mail.consumer(one, publishes=[one])(Small)


def no_prepare(mail: Pipeline, inbox: Topic[str]) -> object:
    class Lame: ...

    return mail.consumer(mail.topic("one", str))(Lame)  # type: ignore[type-var]


def a_plain_prepare(mail: Pipeline, inbox: Topic[str]) -> object:
    class Plain:
        def prepare(self, ctx: Any, state: Any) -> Prepared: ...

    return mail.consumer(mail.topic("one", str))(Plain)  # type: ignore[type-var]


def a_short_next(mail: Pipeline, inbox: Topic[str]) -> object:
    class Short(Small):
        async def next(self, ctx: Any, prepared: Any) -> None: ...

    return mail.consumer(mail.topic("one", str))(Short)


def only_reconcile(mail: Pipeline, inbox: Topic[str]) -> object:
    class Asks(Small):
        async def reconcile(self, ctx: Any, prepared: Any) -> None: ...

    return mail.consumer(mail.topic("one", str))(Asks)


def a_class_with_arguments(mail: Pipeline, inbox: Topic[str]) -> object:
    class Made(Small):
        def __init__(self, sheet: str) -> None:
            self.sheet = sheet

    return mail.consumer(mail.topic("one", str))(Made)


def a_short_producer(mail: Pipeline, inbox: Topic[str]) -> object:
    async def short(ctx: Any) -> None: ...

    return mail.producer(every=1)(short)  # type: ignore[arg-type]


def a_plain_producer(mail: Pipeline, inbox: Topic[str]) -> object:
    def plain(ctx: Any, state: None) -> None: ...

    return mail.producer(every=1)(plain)  # type: ignore[arg-type]


MISTAKES: list[tuple[Mistake, str]] = [
    (lambda mail, inbox: mail.producer(every="5x", name="p")(poll), "producer 'p': every is '5x'"),
    (lambda mail, inbox: mail.producer(cron="61 * * * *", name="p")(poll), "producer 'p': cron '61"),
    (lambda mail, inbox: mail.producer(cron="0 9 * * *", timezone="Mars", name="p")(poll), "'Mars' is unknown"),
    (lambda mail, inbox: mail.producer(name="p")(poll), "needs `every` or `cron`"),
    (lambda mail, inbox: mail.producer(every=1, cron="0 9 * * *", name="p")(poll), "not by both"),
    (lambda mail, inbox: mail.producer(every=1, timeout=-1, name="p")(poll), "timeout of 'p' is negative"),
    (lambda mail, inbox: mail.producer(every=1, timeout=0, name="p")(poll), "timeout of 'p' is 0"),
    (lambda mail, inbox: mail.producer(every=1)(poll), "two handlers are called 'poll'"),
    (lambda mail, inbox: mail.producer(every=1, name="\n")(poll), "the name of one of its handlers"),
    (lambda mail, inbox: mail.producer(every=1, publishes=["inbox"], name="p")(poll), "which is no topic"),  # type: ignore[list-item]
    (lambda mail, inbox: mail.producer(every=1, publishes=5, name="p")(poll), "which is no topic"),  # type: ignore[arg-type]
    (lambda mail, inbox: mail.producer(every=1, publishes=[inbox, inbox], name="p")(poll), "'inbox' twice"),
    (lambda mail, inbox: mail.topic("lonely", str), "nobody subscribes to topic 'lonely'"),
    (lambda mail, inbox: mail.topic("inbox", str), "two topics are called 'inbox'"),
    (lambda mail, inbox: mail.consumer()(Small), "subscribes to no topic"),
    (lambda mail, inbox: mail.consumer("inbox")(Small), "which is no topic"),  # type: ignore[arg-type]
    (a_second_consumer, "two consumers, 'Small' and 'Sheet'"),
    (a_topic_of_another_pipeline, "'theirs' of pipeline 'other'"),
    (a_ring, "'A' is in a cycle that cannot end: A, B"),
    (a_ring_of_one, "'Small' is in a cycle that cannot end"),
    (no_prepare, "no stage `prepare`"),
    (a_plain_prepare, "`prepare` of consumer 'Plain' is not async"),
    (a_short_next, "`next` of consumer 'Short' cannot be called with prepared and outcome"),
    (only_reconcile, "`reconcile` and no `mutate`"),
    (a_class_with_arguments, "called without arguments"),
    (a_short_producer, "cannot be called with ctx and state"),
    (a_plain_producer, "producer 'plain' is not async"),
]


@pytest.mark.parametrize(("mistake", "said"), MISTAKES)
def test_a_mistake_is_refused_at_deploy_with_its_line(mistake: Mistake, said: str) -> None:
    """L2."""
    mail, inbox = declared()
    mistake(mail, inbox)
    with pytest.raises(InvalidValue) as refused:
        validate(mail)
    assert said in str(refused.value)
    place, _, line = str(refused.value).partition(": ")[0].rpartition(":")
    assert place == __file__
    if mistake.__name__ != "a_ring":  # the first of the two is named
        assert "mail." in Path(__file__).read_text("utf-8").splitlines()[int(line) - 1]


def test_what_is_no_pipeline_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"Pipeline\(name\), not str"):
        validate("mail")
    with pytest.raises(InvalidValue, match="the name of a pipeline"):
        Pipeline("")
    mail, _ = declared()
    mail.on_logic_error = 5  # type: ignore[assignment]
    with pytest.raises(InvalidValue, match="on_logic_error"):
        validate(mail)


def test_what_is_no_declaration_is_refused_at_once() -> None:
    mail, inbox = declared()
    with pytest.raises(UsageError, match=r"test_declare.py:\d+: @producer declares a function, not int 5"):
        mail.producer(every=1)(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="@consumer declares a class"):
        mail.consumer(inbox)(poll)  # type: ignore[type-var]


def test_a_cycle_from_which_a_topic_leads_out_is_allowed() -> None:
    """L2 refuses cycles that cannot end: a consumer may send an event round again until it is done with it."""
    mail, _ = declared()
    again, done = mail.topic("again", str), mail.topic("done", str)
    mail.consumer(again, publishes=[again, done], name="Retrying")(Small)
    mail.consumer(done, name="Done")(Small)
    validate(mail)


# --- changes ------------------------------------------------------------------------------------


def made(body: str, topic: type = str, every: object = "5m", extra: str = "") -> str:
    """The digest of a pipeline whose `next` has this body."""
    space: dict[str, Any] = {"Prepared": Prepared}
    exec(f"class C:\n {extra or 'LIMIT = 1'}\n async def prepare(self, ctx, state): ...\n{body}", space)
    mail = Pipeline("mail")
    mail.consumer(mail.topic("inbox", topic))(space["C"])
    mail.producer(every=every)(poll)  # type: ignore[arg-type]
    return digest_of(mail)


BODY = ' async def next(self, ctx, p, o):\n  "Text."\n  return o in {"a", "b", "c", "d", "e", "f", "g", "h"}'


def test_the_same_declaration_has_the_same_digest_whatever_its_lines_and_comments() -> None:
    """L2: opening it again changes nothing."""
    assert made(BODY) == made(BODY)
    assert made("\n\n # a comment\n" + BODY.replace("Text", "Another text")) == made(BODY)


@pytest.mark.parametrize(
    "other",
    [
        lambda: made(BODY.replace('"c"', '"x"')),
        lambda: made(BODY.replace("return o", "return p")),
        lambda: made(BODY.replace("return o in", "return o not in")),
        lambda: made(BODY.replace("return o in {", "return lambda: o in {")),
        lambda: made(BODY.replace("o):", "o, more=2):")),
        lambda: made(BODY + "\n async def mutate(self, ctx, p): ..."),
        lambda: made(BODY + "\n def letter(self): return 1"),
        lambda: made(BODY, extra="LIMIT = 2"),
        lambda: made(BODY, topic=bytes),
        lambda: made(BODY, every="6m"),
    ],
)
def test_a_changed_declaration_has_another_digest(other: Callable[[], str]) -> None:
    """L2: a handler's body counts."""
    assert other() != made(BODY)


def test_what_a_nested_function_says_counts() -> None:
    bodies = [f" async def next(self, ctx, p, o):\n  return [{text!r} for _ in o], (lambda: {text!r})" for text in "xy"]
    assert made(bodies[0]) != made(bodies[1])


def test_a_function_that_a_handler_has_captured_counts_and_other_captured_values_do_not() -> None:
    """Or a port number, new at each start, would make each start a deploy."""

    def build(fetch: Callable[[], int], port: int) -> str:
        async def ask(ctx: Any, state: None) -> None:
            fetch()
            _ = port

        mail = Pipeline("mail")
        mail.producer(every="5m")(ask)
        return digest_of(mail)

    first, second = (lambda: 1), (lambda: 2)
    assert build(first, 1) == build(first, 2)
    assert build(first, 1) != build(second, 1)


def test_a_digest_is_the_same_in_every_process() -> None:
    """L2: whatever the hash seed."""
    program = "import tests.pipelines.test_declare as t; print(t.made(t.BODY), t.digest_of(t.declared()[0]))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


# --- other code for a handler ---------------------------------------------------------------------


def test_a_repair_changes_one_handler_and_is_a_change() -> None:
    """L8: `on_logic_error` may supply new code."""
    mail, _ = declared()

    async def better(ctx: Any, cursor: str | None) -> str | None:
        return "better"

    repaired = validate(mail.repaired("poll", better))
    assert repaired.producers[0].fn is better
    assert (repaired.producers[0].name, repaired.producers[0].every) == ("poll", "5m")
    assert mail.producers[0].fn is poll
    assert digest_of(repaired) != digest_of(mail)
    assert mail.repaired("Sheet", Small).consumers[0].handler is Small
    with pytest.raises(NotFound, match="'gone'"):
        mail.repaired("gone", better)


def test_prepared_data_can_be_read_as_a_type() -> None:
    assert Prepared(data={"1": [1, 2]}).read(dict[int, tuple[int, int]]) == {1: (1, 2)}
    with pytest.raises(InvalidValue, match="data"):
        Prepared(data={"1": "x"}).read(dict[int, int])
