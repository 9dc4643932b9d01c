"""K20: classes that are made inside a function are read as annotated, where annotations are text as well."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import attrs
import msgspec
import pytest

from perdure import activity, codec, receive, workflow
from perdure.testing import Harness, resolve, signal


def classes() -> dict[str, Any]:
    @dataclass
    class Later:
        item: Item
        more: list[Later]

    @dataclass
    class Item:
        cents: int

    @dataclass
    class Held:
        items: list[Item]
        parent: Held | None = None

    class Packed(msgspec.Struct):
        items: dict[str, Item]

    class Named(NamedTuple):
        item: Item
        pieces: int = 1

    class Typed(TypedDict):
        item: Item | None

    @attrs.define
    class Made:
        item: Item

    @workflow
    async def one() -> None: ...

    assert one.name == "one"
    made: list[Any] = [Later, Item, Held, Packed, Named, Typed, Made]
    return {one.__name__: one for one in made}


MADE = classes()
ITEM = MADE["Item"](5)


@pytest.mark.parametrize(
    "value",
    [
        MADE["Held"]([ITEM], MADE["Held"]([])),
        MADE["Packed"]({"a": ITEM}),
        MADE["Named"](ITEM),
        MADE["Made"](ITEM),
        MADE["Later"](ITEM, [MADE["Later"](ITEM, [])]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_stands_beside_a_class_in_its_function_is_known(value: Any) -> None:
    assert codec.decode(codec.encode(value), type(value)) == value


def test_a_typed_dict_that_is_made_inside_a_function() -> None:
    assert codec.decode(codec.encode({"item": ITEM}), MADE["Typed"]) == {"item": ITEM}


def test_classes_beside_a_workflow_are_read_wherever_it_names_them() -> None:
    @dataclass
    class Line:
        text: str

    @dataclass
    class Page:
        lines: list[Line]

    @activity
    async def printed(page: Page) -> Page: ...

    @workflow
    async def reading() -> list[Page]:
        return [await receive("page", Page), await printed(Page([]))]

    page = Page([Line("a")])
    h = Harness(reading)
    h.start()
    (command,) = h.activate(signal("page", page)).commands
    h.activate(resolve(command, page))
    assert h.failure is None
    assert h.result == [page, page]


def test_a_class_that_nobody_needs_any_more_is_let_go() -> None:
    def define() -> weakref.ref[Any]:
        @dataclass
        class Lost:
            other: Lost | None

        codec.note_local_classes(locals())
        return weakref.ref(Lost)

    gone = define()
    gc.collect()
    assert gone() is None
