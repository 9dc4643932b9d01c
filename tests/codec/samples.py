"""Classes of every payload type, for the tests of the codec.

Without postponed annotations in some places the classes would not resolve; all of these stand at module level.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from uuid import UUID

import attrs
import msgspec
import pydantic

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Odd(enum.Enum):
    """Values that msgspec reads in no enum."""

    PAIR = (1, 2)
    HALF = 0.5
    TEXT = "text"
    HUGE = 2**70


@dataclass
class Line:
    sku: str
    price: Decimal
    count: int = 1


@dataclass
class Order:
    id: str
    lines: list[Line] = field(default_factory=list[Line])
    at: datetime | None = None
    colour: Colour = Colour.RED


@dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    _secret: int = 0
    doubled: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", len(self.name) * 2)


@dataclass
class Card:
    number: str


@dataclass
class Cash:
    cents: int


@dataclass
class Voucher:
    cents: int
    code: str


@dataclass
class Payment:
    """A field that msgspec reads in no dataclass."""

    method: Card | Cash | Voucher
    tries: dict[int, list[Card | Cash]] = field(default_factory=dict[int, list[Card | Cash]])
    first: tuple[Card | Cash, int] | None = None
    odd: Odd = Odd.PAIR


@dataclass
class Seeded:
    """An init-only value is not kept: what was made of it is."""

    seed: dataclasses.InitVar[int]
    made: int = field(init=False, default=0)

    def __post_init__(self, seed: int) -> None:
        self.made = seed + 1


@dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = field(default_factory=list[T])


class Point(msgspec.Struct):
    x: int
    y: float = 0.0


class Tagged(msgspec.Struct, tag=True, frozen=True, rename="camel"):
    first_name: str
    born: datetime | None = None


class Other(msgspec.Struct, tag=True, omit_defaults=True):
    values: list[int] = []


class Packed(msgspec.Struct, array_like=True, tag="packed"):
    method: Card | Cash
    count: int = 1


class Holder(msgspec.Struct, rename="camel", tag="holder"):
    pay_method: Card | Cash
    unset: int | msgspec.UnsetType = msgspec.UNSET


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    how: Card | Cash


class Movie(TypedDict):
    title: str
    year: NotRequired[int]
    cast: list[str]


class Ticket(TypedDict):
    paid: Card | Cash
    seat: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class PaidPair(NamedTuple):
    how: Card | Cash
    times: int = 1


@attrs.define
class Account:
    owner: str
    _balance: int = 0
    tags: list[str] = attrs.field(factory=list[str])


@attrs.define
class PaidAccount:
    how: Card | Cash
    _balance: int = 0
    limit: float = attrs.field(default=1.5, converter=float)


class Address(pydantic.BaseModel):
    street: str
    zip_code: str = pydantic.Field(default="", alias="zipCode")


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True, ser_json_bytes="base64", val_json_bytes="base64")

    name: str
    age: int = pydantic.Field(default=0, ge=0)
    addresses: list[Address] = []
    born: datetime | None = None
    key: UUID | None = None
    photo: bytes = b""
    kind: Literal["a", "b"] = "a"
    worth: Decimal = Decimal(0)
    size: Size = Size.SMALL

    @pydantic.computed_field
    @property
    def shout(self) -> str:
        return self.name.upper()


class Renamed(pydantic.BaseModel):
    """One name for reading, another for writing."""

    read: int = pydantic.Field(validation_alias=pydantic.AliasChoices("in", "input"))
    written: int = pydantic.Field(default=0, serialization_alias="out")


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    at: datetime
    key: UUID

    @pydantic.computed_field
    @property
    def year(self) -> int:
        return self.at.year


class Loose(pydantic.BaseModel):
    """Takes anything, so that everything can be hidden in it."""

    model_config = pydantic.ConfigDict(extra="allow", arbitrary_types_allowed=True)

    value: Any = None


class Shelf(msgspec.Struct, tag=True, rename="camel", frozen=True):
    """Holds what msgspec alone would write otherwise, or not at all."""

    the_account: Account
    odd: Odd
    model: Address
    many: list[Account] = []


class Names(pydantic.RootModel[list[str]]):
    pass


@dataclass
class WithModel:
    person: Person
    accounts: list[Account]
