"""The language of filters: what it means, and what it refuses; nothing of the text reaches a store (section 6)."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.clock import micros
from perdure.engine.filters import read_filter
from perdure.errors import InvalidValue
from perdure.stores.records import EVERY, AllOf, AnyOf, Compare, Condition, Not

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("", EVERY),
        ("  ", EVERY),
        ("status = 'failed'", Compare("status", "=", "failed")),
        ('status == "failed"', Compare("status", "=", "failed")),
        ("status != 'failed'", Not(Compare("status", "=", "failed"))),
        ("type in ('a', 'b')", Compare("type", "in", ("a", "b"))),
        ("type not in ('a')", Not(Compare("type", "in", ("a",)))),
        ("id like 'order-%'", Compare("id", "like", "order-%")),
        ("blocked = true", Compare("blocked", "=", True)),
        ("priority >= -3", Compare("priority", ">=", -3)),
        ("started > '-1h'", Compare("started", ">", micros(NOW) - HOUR)),
        ("closed <= '2026-03-10T13:00+01:00'", Compare("closed", "<=", micros(NOW))),
        ("started < '2026-03-10'", Compare("started", "<", micros(NOW) - 12 * HOUR)),
        ("region = 'it''s'", Compare("region", "=", "it's", attribute=True)),
        ('"odd name" = 1.5', Compare("odd name", "=", 1.5, attribute=True)),
        ("paid = false", Compare("paid", "=", False, attribute=True)),
        (
            "a = 1 or b = 2 and not c = 3",
            AnyOf(
                (
                    Compare("a", "=", 1, attribute=True),
                    AllOf((Compare("b", "=", 2, attribute=True), Not(Compare("c", "=", 3, attribute=True)))),
                )
            ),
        ),
        (
            "(a = 1 OR b = 2) AND c = 3",
            AllOf(
                (
                    AnyOf((Compare("a", "=", 1, attribute=True), Compare("b", "=", 2, attribute=True))),
                    Compare("c", "=", 3, attribute=True),
                )
            ),
        ),
    ],
)
def test_a_filter_is_read_as_a_tree(text: str, condition: Condition) -> None:
    assert read_filter(text, NOW) == condition


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("status", "it ends"),
        ("status =", "it ends"),
        ("status = failed", "'text'"),
        ("status = 'odd'", "one of running"),
        ("status = 5", "text"),
        ("= 'failed'", "a name"),
        ("status = 'failed' and", "it ends"),
        ("status = 'failed' type = 'a'", "character 19"),
        ("(status = 'failed'", "`)`"),
        ("status = 'failed')", "`)`"),
        ("status = 'failed", "there is `'`"),
        ("started > 'yesterday'", "a moment"),
        ("started > 5", "a moment"),
        ("priority = 'high'", "a whole number"),
        ("priority = true", "a whole number"),
        ("blocked = 1", "true or false"),
        ("blocked > true", "blocked = true"),
        ("id like 5", "text after `like`"),
        ("priority like '1'", "text after `like`"),
        ("type in 'a'", "`(`"),
        ("type in ()", "a value"),
        ("a ~ 1", "there is `~`"),
        ("a = 1; drop table runs", "there is `;`"),
        ("not " * 60 + "a = 1", "at most 50"),
        ("x" * 10_001, "at most 10000"),
        (5, "text"),
        (None, "text"),
    ],
)
def test_nonsense_is_refused_and_says_where(text: object, why: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_filter(text, NOW)
    assert why in str(caught.value)


@given(st.text(alphabet="abs'\"()=<>!, \n0123456789.%-notandorinlike", max_size=60))
def test_whatever_is_typed_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidValue):
        read_filter(text, NOW)
