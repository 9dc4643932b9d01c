"""Random plans: strategies for what `tests.kernel.random_workflows` plays and `tests.kernel.random_runs` answers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.kernel.random_workflows import MESSAGES, Node

NAMES = st.sampled_from(["x", "y"])
SECONDS = st.sampled_from([1, 2, 2.5])
MAYBE = st.none() | SECONDS


def _node(name: str, *given: st.SearchStrategy[Any]) -> st.SearchStrategy[Node]:
    return st.tuples(st.just(name), *given).map(list)


SIMPLE: st.SearchStrategy[Node] = st.one_of(
    _node("act", st.sampled_from(["try", "options", "wait", "abandon"]), NAMES),
    _node("timer", SECONDS),
    _node("pause", st.sampled_from([0, 0, 1])),
    _node("draws"),
    _node("state", NAMES),
    _node("effect", NAMES),
    _node("patch", NAMES),
    _node("bump"),
)
LEAVES: st.SearchStrategy[Node] = st.one_of(
    SIMPLE,
    SIMPLE,
    _node("begin", NAMES, st.booleans()),
    _node("collect"),
    _node("receive", st.sampled_from(MESSAGES), MAYBE, st.booleans()),
    _node("receive_any", MAYBE),
    _node("promise", MAYBE),
    _node("until", st.integers(1, 3), SECONDS),
    _node("start", st.sampled_from(["await", "signal", "cancel", "outside"])),
    _node("fault", NAMES),
    _node("phase", st.integers(1, 3), SECONDS),
)


def _trees(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    some = st.lists(nodes, min_size=1, max_size=3)
    return st.one_of(
        _node("seq", some),
        _node("attempt", nodes),
        _node("parallel", st.sampled_from(["all", "settled", "first", "two", "of", "merge"]), some),
        _node("race", some),
        _node("each", st.integers(1, 3), some, st.booleans()),
        _node("choose", some),
        _node("tasks", some, st.booleans()),
        _node("gather", some),
        _node("group", some),
        _node("wait", some),
        _node("as_completed", some),
        _node("timed", st.sampled_from(["wait_for", "timeout", "scope"]), SECONDS, nodes),
        _node("region", nodes, SIMPLE),
        _node("shield", nodes),
        _node("cleaned", nodes, SIMPLE),
        _node("turns", st.sampled_from(["lock", "semaphore"]), some),
        _node("handed", st.sampled_from(["event", "queue", "condition"]), nodes, nodes),
    )


TREES: st.SearchStrategy[Node] = st.recursive(LEAVES, _trees, max_leaves=8)
PLANS: st.SearchStrategy[Node] = _node("seq", st.lists(TREES, min_size=1, max_size=3))
# A handler of the class workflow plays one of these, or None: the workflow is a function.
HANDLERS: st.SearchStrategy[Node | None] = st.none() | SIMPLE

# One thing that a turn is told: what, and which of those that are open.
KINDS = ("resolve", "resolve", "resolve", "fail", "ended", "signal", "signal", "update", "query")
MOVES = st.tuples(st.sampled_from(KINDS), st.integers(0, 5))
BATCHES: st.SearchStrategy[list[list[tuple[str, int]]]] = st.lists(st.lists(MOVES, min_size=1, max_size=4), max_size=8)
