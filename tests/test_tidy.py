"""The house rules that no linter knows: sizes, names, module headers, public names, tests that wait.

A rule that has to give way in one place has an entry in `EXCEPTIONS`, with its reason.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.tree import TREE, modules, name_of

LIMITS = {"lines of a file": 400, "lines of a body": 50, "public methods": 12, "parameters": 7}

# Words that name nothing, so that anything may be put under them.
EMPTY_WORDS = frozenset(
    {"manager", "managers", "helper", "helpers", "util", "utils", "utility", "utilities", "common", "base"}
    | {"impl", "internal", "internals", "data", "info"}
)


@dataclass(frozen=True)
class Allowed:
    """A place that may go beyond a limit, how far, and why."""

    limit: int
    reason: str


# (rule, "file" or "file:qualified name") -> how far, and why. An entry that is no longer needed fails.
EXCEPTIONS: dict[tuple[str, str], Allowed] = {
    ("empty word", "src/perdure/errors.py:InternalError"): Allowed(1, "a promised name: an error that is our bug"),
    ("empty word", "src/perdure/define/performing.py:ActivityInfo"): Allowed(1, "a promised name"),
    ("public methods", "src/perdure/kernel/futures.py:UnitTask"): Allowed(13, "what asyncio asks of a task"),
    ("public methods", "src/perdure/kernel/loop.py:WorkflowLoop"): Allowed(23, "what asyncio asks of a loop, mostly"),
    ("public methods", "src/perdure/testing/harness.py:Harness"): Allowed(13, "promised names"),
    ("public methods", "src/perdure/engine/handles.py:Handle"): Allowed(15, "promised names"),
}


@dataclass(frozen=True)
class Measure:
    """How much of something one place has."""

    rule: str
    place: str
    amount: int

    @property
    def limit(self) -> int:
        return LIMITS.get(self.rule, 0)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), filename=name_of(path))


Function = ast.FunctionDef | ast.AsyncFunctionDef


def definitions(node: ast.AST, outer: str = "") -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Every class and function below the node with its qualified name, the outer ones first."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            name = f"{outer}.{child.name}" if outer else child.name
            yield name, child
            yield from definitions(child, name)
        else:
            yield from definitions(child, outer)


# --- sizes and names ------------------------------------------------------------------------


def body_lines(function: Function) -> int:
    """The lines of the body: without signature, decorators and docstring."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameters(function: Function) -> int:
    """What a caller can give: without `self` and `cls`; `*args` and `**kwargs` count one each."""
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    bound = 1 if named and named[0].arg in {"self", "cls"} else 0
    return len(named) - bound + (given.vararg is not None) + (given.kwarg is not None)


def public_methods(node: ast.ClassDef) -> int:
    return len({item.name for item in node.body if isinstance(item, Function) and not item.name.startswith("_")})


def empty_words(name: str) -> int:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return sum(word.lower() in EMPTY_WORDS for word in words)


def measures(path: Path) -> Iterator[Measure]:
    file = name_of(path)
    yield Measure("lines of a file", file, len(path.read_text("utf-8").splitlines()))
    yield Measure("empty word", file, empty_words(path.parent.name) + empty_words(path.stem))
    for name, node in definitions(tree_of(path)):
        place = f"{file}:{name}"
        if isinstance(node, ast.ClassDef):
            yield Measure("public methods", place, public_methods(node))
            yield Measure("empty word", place, empty_words(node.name))
        else:
            yield Measure("lines of a body", place, body_lines(node))
            yield Measure("parameters", place, parameters(node))


def too_much(found: list[Measure], exceptions: dict[tuple[str, str], Allowed]) -> list[str]:
    """The measures beyond their limit, or beyond what their exception allows."""
    lines: list[str] = []
    for measure in found:
        exception = exceptions.get((measure.rule, measure.place))
        limit = exception.limit if exception else measure.limit
        if measure.amount > limit:
            lines.append(f"{measure.place}: {measure.rule}: {measure.amount}, at most {limit}")
    return lines


def not_needed(found: list[Measure], exceptions: dict[tuple[str, str], Allowed]) -> list[str]:
    """The exceptions whose place is gone or keeps the limit by now."""
    beyond = {(measure.rule, measure.place) for measure in found if measure.amount > measure.limit}
    return [f"{place}: {rule}" for rule, place in exceptions if (rule, place) not in beyond]


@cache
def all_measures() -> tuple[Measure, ...]:
    return tuple(measure for path in modules() for measure in measures(path))


def test_files_bodies_classes_and_calls_are_small_and_names_say_something() -> None:
    assert too_much(list(all_measures()), EXCEPTIONS) == []


def test_an_exception_that_is_no_longer_needed_is_taken_out() -> None:
    assert not_needed(list(all_measures()), EXCEPTIONS) == []


def test_an_exception_says_how_far_it_goes_and_is_noticed_when_it_is_not_needed() -> None:
    exceptions = {("parameters", "a.py:f"): Allowed(9, "promised"), ("parameters", "a.py:g"): Allowed(9, "promised")}
    found = [
        Measure("parameters", "a.py:f", 10),
        Measure("parameters", "a.py:g", 7),
        Measure("parameters", "a.py:h", 8),
    ]
    assert too_much(found, exceptions) == [
        "a.py:f: parameters: 10, at most 9",
        "a.py:h: parameters: 8, at most 7",
    ]
    assert not_needed(found, exceptions) == ["a.py:g: parameters"]


def test_sizes_are_counted_without_signature_docstring_and_self() -> None:
    text = '''
class TaskManager:
    def one(
        self,
        a: int, *rest: int, b: int = 0, **more: int
    ) -> int:
        """Two lines
        of docstring."""
        total = a
        return total + b
    def _two(self) -> None: ...
'''
    (_, manager), (_, one), _ = definitions(ast.parse(text))
    assert isinstance(manager, ast.ClassDef)
    assert isinstance(one, ast.FunctionDef)
    assert (public_methods(manager), empty_words(manager.name)) == (1, 1)
    assert (body_lines(one), parameters(one)) == (2, 4)


# --- headers and the facade -----------------------------------------------------------------


def header_fault(module: ast.Module) -> str | None:
    """What is wrong with a module's first words; None if they are one sentence."""
    docstring = ast.get_docstring(module)
    if docstring is None:
        return "has no docstring"
    first = docstring.splitlines()[0]
    if not first.endswith((".", "?", "!")) or re.search(r"[a-z)`][.?!] [A-Z`]", first):
        return f"its first line is not one sentence: {first!r}"
    return None


def test_every_module_opens_with_one_sentence() -> None:
    faults = {name_of(path): fault for path in modules() if (fault := header_fault(tree_of(path)))}
    assert faults == {}


@pytest.mark.parametrize("text", ["x = 1", '"""No full stop"""', '"""One. Two."""', '"""Broken\noff."""'])
def test_a_module_without_such_a_sentence_is_noticed(text: str) -> None:
    assert header_fault(ast.parse(text)) is not None


def bound_names(module: ast.Module) -> set[str]:
    """The public names that a module imports, defines or assigns at its top, under `if TYPE_CHECKING` too."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names |= {alias.asname or alias.name for alias in node.names}
    for node in module.body:
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_") and name != "TYPE_CHECKING"}


def test_the_list_of_public_names_is_complete_and_sorted_and_each_is_there() -> None:
    facade = importlib.import_module("perdure")
    listed: list[str] = list(facade.__all__)
    assert listed == sorted(set(listed))
    assert bound_names(tree_of(TREE / "src/perdure/__init__.py")) - set(listed) == set()
    assert [name for name in listed if not hasattr(facade, name)] == []


# --- tests do not wait ----------------------------------------------------------------------


# Files that are workflow code as a whole, though no decorator in them says so, and why.
WORKFLOW_CODE = {
    "tests/kernel/test_found_sweeps.py": "its sleeps are in functions that become workflows further down",
    "tests/kernel/random_workflows.py": "what it decorates runs in workflows, which find it by name",
    "tests/kernel/waiting_samples_asyncio.py": "its samples become workflows in test_waiting",
    "tests/testing/test_virtual.py": "its sleeps are on virtual time",
    "tests/testing/test_virtual_programs.py": "its sleeps are on virtual time",
    "tests/testing/test_virtual_outside.py": "its sleeps are on virtual time, or wait while something really goes on",
    "tests/engine/stories.py": "its stories are told on virtual time",
    "tests/engine/boundaries.py": "its stories are told on virtual time",
    "tests/crash/driver.py": "it kills a process after a random while, which is what it is for",
    "tests/engine/test_late_looks.py": "its stores answer late in virtual time",
    "tests/pipelines/corpus.py": "its pipelines run on virtual time",
    "tests/pipelines/walking.py": "its pipelines run on virtual time",
    "tests/pipelines/test_pipeline_boundaries.py": "its pipelines run on virtual time",
    "tests/pipelines/test_pipeline_chaos.py": "its pipelines run on virtual time",
    "tests/pipelines/test_host_owners.py": "its pipelines run on virtual time",
    "tests/pipelines/killing.py": "it kills a process after a random while, which is what it is for",
    "tests/pipelines/program.py": "a program that tests kill, which answers a little later",
}

# The fixtures of the pytest plugin that put an `async def` test on virtual time.
VIRTUAL_TIME = {"engine", "virtual_clock"}


def real_sleeps(module: ast.Module) -> list[int]:
    """The lines that would wait for real: `time.sleep`, or `asyncio.sleep` of more than nothing, outside workflows.

    In workflow code a sleep is a durable timer, or what a guard is meant to refuse. That is what `workflow` decorates
    or is called with, and every function of the same file whose name such code mentions. An `async def` test with a
    fixture of virtual time waits for nothing either, but for a `time.sleep`.
    """
    sleeps = _names_of_sleep(module, "time") | _names_of_sleep(module, "asyncio")
    inside: set[ast.AST] = {descendant for node in _workflow_code(module) for descendant in ast.walk(node)}
    inside |= _virtual_sleeps(module)
    return sorted(
        node.lineno
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in sleeps and node not in inside
        if not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    )


def _names_of_sleep(module: ast.Module, whose: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {f"{alias.asname or alias.name}.sleep" for alias in node.names if alias.name == whose}
        elif isinstance(node, ast.ImportFrom) and node.module == whose:
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "sleep"}
    return names


def _virtual_sleeps(module: ast.Module) -> set[ast.AST]:
    sleeps = _names_of_sleep(module, "asyncio")
    tests = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_")
        if VIRTUAL_TIME & {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
    ]
    called = [node for test in tests for node in ast.walk(test) if isinstance(node, ast.Call)]
    return {node for node in called if ast.unparse(node.func) in sleeps}


def _workflow_code(module: ast.Module) -> list[ast.AST]:
    named: defaultdict[str, list[Function | ast.ClassDef]] = defaultdict(list)
    for _, node in definitions(module):
        named[node.name].append(node)
    code: list[ast.AST] = [node for _, node in definitions(module) if any(map(_is_workflow, node.decorator_list))]
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _is_workflow(node.func):
            code += node.args
    reached: set[str] = set()
    for node in code:  # grows while it is walked
        mentioned = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in named} - reached
        reached |= mentioned
        code += [each for name in sorted(mentioned) for each in named[name]]
    return code


def _is_workflow(node: ast.expr) -> bool:
    text = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    return text.split(".")[-1] == "workflow"


def test_no_test_waits_for_real() -> None:
    tests = [path for path in modules() if name_of(path).startswith("tests/") and name_of(path) not in WORKFLOW_CODE]
    assert {name_of(path): lines for path in tests if (lines := real_sleeps(tree_of(path)))} == {}


def test_a_file_that_need_not_be_let_off_is_not() -> None:
    assert [name for name in WORKFLOW_CODE if not real_sleeps(tree_of(TREE / name))] == []


def test_a_real_sleep_is_told_from_a_durable_one() -> None:
    text = """
import asyncio, time
from time import sleep as nap
from perdure import sleep, workflow
async def branch(): await asyncio.sleep(5)
@workflow
async def durable(): await asyncio.gather(branch(), asyncio.sleep(9)); time.sleep(1)
async def test_it(): await asyncio.sleep(0); await sleep(3); await asyncio.sleep(0.01)
def wait(): nap(1); time.sleep(2)
def test_one():
    @workflow
    async def run_it(): await asyncio.sleep(5)
def test_two():
    @workflow
    async def run_it(): await sleep(5)
async def test_three(engine): await asyncio.sleep(60); time.sleep(1)
async def test_four(virtual_clock: Clock): await asyncio.sleep(60)
async def test_five(motor): await asyncio.sleep(60)
def test_six(engine): asyncio.run(asyncio.sleep(60))
"""
    assert real_sleeps(ast.parse(text)) == [8, 9, 9, 16, 18, 19]
