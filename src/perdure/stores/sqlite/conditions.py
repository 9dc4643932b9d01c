"""Conditions: what people want to find, as SQL with parameters; nothing of a value ever becomes a part of a text.

In:  perdure.stores.records.Condition.
Out: for each condition a check of a row of `states` and, where an index has them, the numbers of the runs that fit.

perdure.stores.finding says in Python what this has to mean. SQLite compares numbers before texts, whatever their type,
so where an attribute is compared by order, the end of its own kind is a limit too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from perdure.stores.records import AllOf, AnyOf, Compare, Condition, Not, Scalar
from perdure.stores.sqlite import sql
from perdure.stores.sqlite.access import Value

TEXTS = frozenset({"status", "type", "id", "run_id", "queue", "parent"})
OF_RUNS = frozenset({"id", "run_id", "generation", "parent"})
NULLABLE = frozenset({"closed", "parent"})
UNIONS_MAX = 100
LAST_CHARACTER = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)


class Part(NamedTuple):
    """A piece of SQL, and the values of its parameters in order."""

    text: str
    values: tuple[Value, ...] = ()


class Numbers(NamedTuple):
    """A query that gives the numbers of the runs that fit; `different`: each once; `ordered`: by size as well."""

    query: Part
    different: bool
    ordered: bool = False


NEVER, ALWAYS = Part("false"), Part("true")


def check(condition: Condition) -> Part:
    """The condition on a row of `states`: true or false, never null."""
    match condition:
        case Compare():
            return _check_of(condition)
        case AllOf(parts):
            return joined([check(part) for part in parts], "and") if parts else ALWAYS
        case AnyOf(parts):
            return joined([check(part) for part in parts], "or") if parts else NEVER
        case Not(part):
            inner = check(part)
            return Part(f"not ({inner.text})", inner.values)


def numbers(condition: Condition) -> Numbers | None:
    """The runs that fit, out of an index; None where there is none for that."""
    match condition:
        case Compare():
            return _numbers_of(condition)
        case AnyOf(parts) if 0 < len(parts) <= UNIONS_MAX:
            found = [each for part in parts if (each := numbers(part)) is not None]
            if len(found) < len(parts):
                return None
            if len(found) == 1:
                return found[0]
            queries = [each.query for each in found]
            ordered = all(each.ordered for each in found)  # then SQLite merges them, and gives each number once
            union = sql.UNION_MERGED if ordered else sql.UNION
            text = union.format(queries=(" union " if ordered else " union all ").join(each.text for each in queries))
            return Numbers(Part(text, values_of(queries)), different=ordered)
        case _:
            return None


def conjuncts(condition: Condition) -> list[Condition]:
    """What has to hold together."""
    if not isinstance(condition, AllOf):
        return [condition]
    return [each for part in condition.parts for each in conjuncts(part)]


def joined(parts: Sequence[Part], word: str) -> Part:
    """Joined as a balanced tree: SQLite limits how deep expressions may be, and a filter may be long."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left, right = joined(parts[:middle], word), joined(parts[middle:], word)
    return Part(f"({left.text} {word} {right.text})", (*left.values, *right.values))


def is_of_states(condition: Condition) -> bool:
    """Whether a row of `states` says all that is needed."""
    match condition:
        case Compare():
            return not condition.attribute and condition.field not in OF_RUNS
        case AllOf(parts) | AnyOf(parts):
            return all(is_of_states(part) for part in parts)
        case Not(part):
            return is_of_states(part)


def _check_of(wanted: Compare) -> Part:
    comparison = _comparison(wanted)
    if comparison is NEVER:
        return NEVER
    if wanted.attribute:
        exists = sql.WITH_ATTRIBUTE_AS if wanted.operator == "=" else sql.WITH_ATTRIBUTE
        return Part(exists.format(comparison=comparison.text), (wanted.field, *comparison.values))
    if wanted.field in OF_RUNS:
        return Part(sql.WITH_FACT.format(comparison=comparison.text), comparison.values)
    return comparison


def _numbers_of(wanted: Compare) -> Numbers | None:
    comparison = _comparison(wanted)
    if comparison is NEVER:
        return Numbers(Part(f"{sql.EVERY_NUMBER} where false"), different=True)
    if wanted.attribute and wanted.operator == "in" and isinstance(wanted.value, tuple):
        each = AnyOf(tuple(Compare(wanted.field, "=", value, attribute=True) for value in wanted.value))
        if len(each.parts) <= UNIONS_MAX:
            return numbers(each)
    if wanted.attribute:
        query = sql.NUMBERS_BY_ATTRIBUTE.format(comparison=comparison.text)
        return Numbers(Part(query, (wanted.field, *comparison.values)), wanted.operator == "=", wanted.operator == "=")
    if wanted.field == "blocked":
        return Numbers(Part(sql.NUMBERS_BLOCKED), different=True) if _only_true(wanted) else None
    if wanted.field not in sql.NUMBERS_BY:
        return None
    return Numbers(
        Part(sql.NUMBERS_BY[wanted.field].format(comparison=comparison.text), comparison.values),
        different=True,
        ordered=wanted.operator == "=" and wanted.field in ("status", "type"),
    )


def _only_true(wanted: Compare) -> bool:
    return wanted.operator == "=" and isinstance(wanted.value, int | float) and wanted.value == 1


# --- comparisons ---------------------------------------------------------------------------------


def _comparison(wanted: Compare) -> Part:
    """A column compared; `NEVER` where the column cannot hold such a value."""
    column = "value" if wanted.attribute else sql.FIELD_COLUMNS[wanted.field]
    given = wanted.value if isinstance(wanted.value, tuple) else (wanted.value,)
    if not wanted.attribute:
        given = tuple(value for value in given if isinstance(value, str) == (wanted.field in TEXTS))
    if not given:
        return NEVER
    part = _compared(column, wanted.operator, given, ordered_by_kind=wanted.attribute)
    if not wanted.attribute and wanted.field in NULLABLE:
        return Part(f"({column} is not null and {part.text})", part.values)
    return part


def _compared(column: str, operator: str, given: tuple[Scalar, ...], *, ordered_by_kind: bool) -> Part:
    value = given[0]
    if operator == "in":
        return Part(f"{column} in ({','.join('?' * len(given))})", tuple(map(_plain, given)))
    if operator == "like":
        return _like(column, value) if isinstance(value, str) else NEVER
    compared = Part(f"{column} {OPERATORS[operator]} ?", (_plain(value),))
    if ordered_by_kind and isinstance(value, str) and operator in ("<", "<="):
        return Part(f"({column} >= '' and {compared.text})", compared.values)
    if ordered_by_kind and not isinstance(value, str) and operator in (">", ">="):
        return Part(f"({compared.text} and {column} < '')", compared.values)
    return compared


OPERATORS = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def _plain(value: Scalar) -> Value:
    return int(value) if isinstance(value, bool) else value


def _like(column: str, pattern: str) -> Part:
    """By the texts that begin as the pattern does, which an index has together, and then by the whole of it."""
    prefix = pattern.replace("_", "%").partition("%")[0]
    if "\0" in pattern:
        return NEVER
    if prefix == pattern:
        return Part(f"{column} = ?", (pattern,))
    limits, values = f"{column} >= ?", [prefix]
    end = _after_all(prefix)
    if end:
        limits, values = f"{limits} and {column} < ?", [prefix, end]
    if pattern != f"{prefix}%":
        escaped = "".join(GLOB.get(character, character) for character in pattern)
        limits, values = f"{limits} and {column} glob ?", [*values, escaped]
    return Part(f"({limits})", tuple(values))


GLOB = {"%": "*", "_": "?", "*": "[*]", "?": "[?]", "[": "[[]"}


def _after_all(prefix: str) -> str:
    """The smallest text that comes after all that begin so; none if nothing does."""
    while prefix and ord(prefix[-1]) == LAST_CHARACTER:
        prefix = prefix[:-1]
    if not prefix:
        return ""
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(SURROGATES.stop if following in SURROGATES else following)


def values_of(parts: Sequence[Part]) -> tuple[Value, ...]:
    return tuple(value for part in parts for value in part.values)
