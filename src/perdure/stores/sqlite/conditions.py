"""Conditions: what people want to find, as SQL with parameters; nothing of a value ever becomes a part of a text.

In:  perdure.stores.records.Condition, and where the attributes that it names are kept.
Out: for each condition a check of a row of `found` and, where an index has them, the numbers of the runs that fit.

perdure.stores.finding says in Python what this has to mean. SQLite compares numbers before texts before blobs, so where
an attribute is compared by order, the end of its own kind is a limit too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from perdure.stores.records import AllOf, AnyOf, Compare, Condition, Not, Scalar
from perdure.stores.sqlite import finding_sql as sql
from perdure.stores.sqlite import several
from perdure.stores.sqlite.access import Value

TEXTS = frozenset({"status", "type", "id", "run_id", "queue", "parent"})
UNIONS_MAX = 100
LOOKED_FOR_MAX = 8
LAST_CHARACTER = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)


class Part(NamedTuple):
    """A piece of SQL, and the values of its parameters in order; how slow it is, by which others go before it."""

    text: str
    values: tuple[Value, ...] = ()
    slow: int = 0


class Kept(NamedTuple):
    """Where the values of an attribute are: in a column of `found`, in rows of `attributes`, or in both."""

    place: int | None
    rows: bool


class Numbers(NamedTuple):
    """Queries that give the numbers of the runs that fit, no run in two of them; `different`: nor twice in one."""

    queries: tuple[Part, ...]
    different: bool


Places = Mapping[str, Kept]
NEVER, ALWAYS = Part("false"), Part("true")
PATTERN, LOOKUP = 1, 2  # of `Part.slow`


def check(condition: Condition, places: Places) -> Part:
    """The condition on a row of `found`: true, or else false or null."""
    match condition:
        case Compare():
            return _check_of(condition, places)
        case AllOf(parts):
            return joined([check(part, places) for part in parts], "and") if parts else ALWAYS
        case AnyOf(parts):
            return joined([check(part, places) for part in parts], "or") if parts else NEVER
        case Not(part):
            inner = check(part, places)
            return Part(f"({inner.text}) is not true", inner.values, inner.slow)


def numbers(condition: Condition, places: Places) -> Numbers | None:
    """The runs that fit, out of indexes; None where there is none for that."""
    match condition:
        case Compare():
            return _numbers_of(condition, places)
        case AnyOf(parts) if 0 < len(parts) <= UNIONS_MAX:
            found = [each for part in parts if (each := numbers(part, places)) is not None]
            if len(found) < len(parts):
                return None
            return Numbers(tuple(query for each in found for query in each.queries), different=False)
        case _:
            return None


def pairs(parts: Sequence[Condition], places: Places) -> Iterator[tuple[tuple[Condition, ...], Numbers]]:
    """Those of what has to hold together that are the two ends of a range, and the runs within, out of an index."""
    compares = [part for part in parts if isinstance(part, Compare)]
    for lower in compares:
        for upper in compares:
            if lower.operator in (">", ">=") and upper.operator in ("<", "<=") and _is_same(lower, upper):
                numbers = _numbers_between(lower, upper, places)
                if numbers is not None:
                    yield (lower, upper), numbers


def conjuncts(condition: Condition) -> list[Condition]:
    """What has to hold together."""
    if not isinstance(condition, AllOf):
        return [condition]
    return [each for part in condition.parts for each in conjuncts(part)]


def joined(parts: Sequence[Part], word: str) -> Part:
    """The quick ones first; a balanced tree, as SQLite limits how deep expressions may be, and a filter may be long."""
    return _balanced(sorted(parts, key=lambda part: part.slow), word)


def attribute_names(condition: Condition) -> Iterator[str]:
    """The attributes that it asks for."""
    match condition:
        case Compare():
            if condition.attribute:
                yield condition.field
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from attribute_names(part)
        case Not(part):
            yield from attribute_names(part)


def values_of(parts: Sequence[Part]) -> tuple[Value, ...]:
    return tuple(value for part in parts for value in part.values)


def _balanced(parts: Sequence[Part], word: str) -> Part:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left, right = _balanced(parts[:middle], word), _balanced(parts[middle:], word)
    slow = max(left.slow, right.slow)
    return Part(f"({left.text} {word} {right.text})", (*left.values, *right.values), slow)


# --- checks --------------------------------------------------------------------------------------


def _check_of(wanted: Compare, places: Places) -> Part:
    if wanted.attribute:
        return _check_of_attribute(wanted, places[wanted.field])
    compared = _of_field(wanted)
    if wanted.field != "run_id" or compared is NEVER:
        return compared
    if wanted.operator in ("=", "in"):
        query = sql.NUMBERS_BY["run_id"].format(comparison=compared.text)
        return Part(sql.AMONG.format(numbers=query), compared.values)
    return Part(sql.WITH_RUN_ID.format(comparison=compared.text), compared.values, LOOKUP)


def _check_of_attribute(wanted: Compare, kept: Kept) -> Part:
    if wanted.operator == "like" and wanted.value == "%":
        wanted = Compare(wanted.field, ">=", "", attribute=True)  # any text
    compared = _of_attribute("value", wanted)
    if compared is NEVER or (kept.place is None and not kept.rows):
        return NEVER
    in_rows = Part(sql.WITH_ATTRIBUTE.format(comparison=compared.text), (wanted.field, *compared.values), LOOKUP)
    if kept.place is None:
        return in_rows
    column = sql.VALUE.format(place=kept.place)
    in_column = _of_attribute(column, wanted)
    if not kept.rows:
        return in_column
    return joined([in_column, _check_of_several(column, wanted, in_rows)], "or")


def _check_of_several(column: str, wanted: Compare, in_rows: Part) -> Part:
    """A blob of several values says itself whether one is among them, and nearly always what comes before or after."""
    if wanted.operator in ("=", "in"):
        found = _among_several(column, wanted.value if isinstance(wanted.value, tuple) else (wanted.value,), in_rows)
    elif wanted.operator == "like" or isinstance(wanted.value, tuple):
        found = _like_several(column, str(wanted.value), in_rows)
    else:
        return _by_keys(column, wanted.operator, wanted.value, in_rows)
    return joined([Part(sql.SEVERAL.format(column=column)), found], "and")


def _among_several(column: str, given: tuple[Scalar, ...], in_rows: Part) -> Part:
    if len(given) > LOOKED_FOR_MAX:
        return in_rows
    looked = sql.AMONG_SEVERAL.format(column=column)
    return joined([Part(looked, (several.within(value),), PATTERN) for value in given], "or")


def _like_several(column: str, pattern: str, in_rows: Part) -> Part:
    piece, is_all = several.piece_of(pattern)
    if not piece:
        return in_rows
    there = Part(sql.PIECE_OF_SEVERAL.format(column=column, at=several.VALUES_AT), (piece,), PATTERN)
    return there if is_all else joined([there, in_rows], "and")


def _by_keys(column: str, operator: str, value: Scalar, in_rows: Part) -> Part:
    """By the lowest or the highest value; by its rows where their keys say nothing."""
    is_after = operator in (">", ">=")
    at = several.HIGHEST_AT if is_after else several.LOWEST_AT
    text = sql.BY_KEY.format(column=column, at=at, size=several.KEY_BYTES, operator=operator[0], in_rows=in_rows.text)
    key = several.key_of(value)
    by_key = Part(text, (key, key, *in_rows.values), LOOKUP)
    kind = several.KINDS[str if isinstance(value, str) else int]
    same, mixed = _of_kind(column, kind), _of_kind(column, several.MIXED)
    return joined([joined([same, by_key], "and"), joined([mixed, in_rows], "and")], "or")


def _of_kind(column: str, kind: bytes) -> Part:
    return Part(sql.OF_KIND.format(column=column), (kind, bytes([kind[0] + 1])))


# --- numbers -------------------------------------------------------------------------------------


def _numbers_of(wanted: Compare, places: Places) -> Numbers | None:
    compared = _of_attribute("value", wanted) if wanted.attribute else _of_field(wanted)
    if compared is NEVER:
        return Numbers((Part(sql.NOBODY),), different=True)
    if wanted.operator == "like" and not _prefix(str(wanted.value)):
        return None  # an index would have to be gone through as a whole
    if wanted.attribute:
        return _numbers_by_attribute(wanted, places[wanted.field])
    if wanted.field == "blocked":
        return Numbers((Part(sql.NUMBERS_BLOCKED),), different=True) if _only_true(wanted) else None
    if wanted.field not in sql.NUMBERS_BY:
        return None
    query = sql.NUMBERS_BY[wanted.field].format(comparison=compared.text)
    return Numbers((Part(query, compared.values),), different=True)


def _numbers_by_attribute(wanted: Compare, kept: Kept) -> Numbers:
    queries: list[Part] = []
    if kept.place is not None:
        compared = _of_attribute(sql.VALUE.format(place=kept.place), wanted)
        query = sql.NUMBERS_BY_VALUE.format(place=kept.place, comparison=compared.text)
        queries.append(Part(query, compared.values))
    if kept.rows:
        compared = _of_attribute("value", wanted)
        query = sql.NUMBERS_BY_ATTRIBUTE.format(comparison=compared.text)
        queries.append(Part(query, (wanted.field, *compared.values)))
    return Numbers(tuple(queries) or (Part(sql.NOBODY),), different=not kept.rows or wanted.operator == "=")


def _is_same(one: Compare, other: Compare) -> bool:
    """Whether they are of the same field or attribute, and of the same kind of values."""
    is_text = isinstance(one.value, str)
    return (one.field, one.attribute, is_text) == (other.field, other.attribute, isinstance(other.value, str))


def _numbers_between(lower: Compare, upper: Compare, places: Places) -> Numbers | None:
    if lower.attribute:
        kept = places[lower.field]
        if kept.place is None or kept.rows:
            return None  # of several values, one may be above the one end, and another below the other
        column, statement = sql.VALUE.format(place=kept.place), sql.NUMBERS_BY_VALUE
    else:
        kept = None
        column, statement = sql.FIELD_COLUMNS[lower.field], sql.NUMBERS_BY.get(lower.field)
        if statement is None or _of_field(lower) is NEVER:
            return None
    ends = [
        _compared(column, each.operator, (each.value,)) for each in (lower, upper) if not isinstance(each.value, tuple)
    ]
    within = joined(ends, "and")
    text = statement.format(place=kept and kept.place, comparison=within.text)
    return Numbers((Part(text, within.values),), different=True)


def _only_true(wanted: Compare) -> bool:
    return wanted.operator == "=" and isinstance(wanted.value, int | float) and wanted.value == 1


# --- comparisons ---------------------------------------------------------------------------------


def _of_field(wanted: Compare) -> Part:
    """The column of a field compared; `NEVER` where it cannot hold such a value."""
    given = wanted.value if isinstance(wanted.value, tuple) else (wanted.value,)
    given = tuple(value for value in given if isinstance(value, str) == (wanted.field in TEXTS))
    return _compared(sql.FIELD_COLUMNS[wanted.field], wanted.operator, given)


def _of_attribute(column: str, wanted: Compare) -> Part:
    """A column compared that has numbers, texts and blobs, of which only one kind is meant."""
    given = wanted.value if isinstance(wanted.value, tuple) else (wanted.value,)
    compared = _compared(column, wanted.operator, given)
    if compared is NEVER or wanted.operator in ("=", "in"):
        return compared
    if not isinstance(wanted.value, str):
        return compared if wanted.operator in ("<", "<=") else _within(compared, f"{column} < ''")
    if wanted.operator in ("<", "<="):
        return _within(compared, f"{column} >= ''")
    return _within(compared, f"{column} < x''")


def _within(compared: Part, limit: str) -> Part:
    return Part(f"({compared.text} and {limit})", compared.values, compared.slow)


def _compared(column: str, operator: str, given: tuple[Scalar, ...]) -> Part:
    if not given:
        return NEVER
    value = given[0]
    if operator == "in":
        return Part(f"{column} in ({','.join('?' * len(given))})", tuple(map(_plain, given)))
    if operator == "like":
        return _like(column, value) if isinstance(value, str) else NEVER
    return Part(f"{column} {OPERATORS[operator]} ?", (_plain(value),))


OPERATORS = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def _plain(value: Scalar) -> Value:
    return int(value) if isinstance(value, bool) else value


def _like(column: str, pattern: str) -> Part:
    """By the texts that begin as the pattern does, which an index has together, and then by the whole of it."""
    prefix = _prefix(pattern)
    if "\0" in pattern:
        return NEVER
    if prefix == pattern:
        return Part(f"{column} = ?", (pattern,))
    limits, values = f"{column} >= ?", [prefix]
    end = _after_all(prefix)
    if end:
        limits, values = f"{limits} and {column} < ?", [prefix, end]
    if pattern == f"{prefix}%":
        return Part(f"({limits})", tuple(values))
    escaped = "".join(GLOB.get(character, character) for character in pattern)
    return Part(f"({limits} and {column} glob ?)", (*values, escaped), PATTERN)


GLOB = {"%": "*", "_": "?", "*": "[*]", "?": "[?]", "[": "[[]"}


def _prefix(pattern: str) -> str:
    return pattern.replace("_", "%").partition("%")[0]


def _after_all(prefix: str) -> str:
    """The smallest text that comes after all that begin so; none if nothing does."""
    while prefix and ord(prefix[-1]) == LAST_CHARACTER:
        prefix = prefix[:-1]
    if not prefix:
        return ""
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(SURROGATES.stop if following in SURROGATES else following)
