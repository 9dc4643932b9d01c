"""Mutants: break the kernel on purpose, one rule at a time; every break must be noticed by a test.

    make mutants                      all of them
    make mutants ARGS="K4 P2.1"       those of some rules, or single ones
    make mutants ARGS="--list"        what there is

The mutants are data, in tests/mutants/: a rule, a sentence, and a text in one file of the package that is replaced by
another. Each is applied to a copy of src/ in a temporary folder, and the tests run with that copy imported, up to the
first that fails: first those that name the rule in their name or docstring, then, if none of them fails, all.

A mutant is *caught* by a test that fails, and fails again when it is run alone; or if the tests crash, or need more
than LIMIT_FACTOR times as long as without the break. It has *survived* if all tests pass. It is *bad* if it does not
apply, or if the package cannot be imported with it: that says nothing of the tests. Exit code 0: all were caught.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

TREE = Path(__file__).resolve().parent.parent
PACKAGE = "perdure"
MUTANTS = TREE / "tests/mutants"
TESTS = ("tests/kernel", "tests/policies", "tests/codec", "tests/define", "tests/upstreams")
JOBS = 2
LIMIT_FACTOR = 4
LIMIT_SECONDS_MIN = 30
TRIES_MAX = 4  # tests that fail once and not again, before they are given up
# Tests of these rules measure time. Where several processes share a machine they say nothing of another rule.
TIMED = ("P5",)

Verdict = Literal["caught", "survived", "bad"]


class BadMutant(Exception):
    """A mutant does not apply to the package as it is: mend it, or take it out."""


@dataclass(frozen=True)
class Mutant:
    """One deliberate break."""

    id: str
    rule: str
    breaks: str
    file: str
    old: str
    new: str

    def applied(self, source: Path) -> str:
        """The text of its file with the break in it, below a folder that holds the package."""
        path = source / PACKAGE / self.file
        if not path.is_file():
            raise BadMutant(f"{self.id}: there is no {self.file} in the package")
        text = path.read_text("utf-8")
        times = text.count(self.old)
        if times != 1:
            raise BadMutant(f"{self.id}: its old text stands in {self.file} {times} times, and not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    mutant: str
    rule: str
    breaks: str
    verdict: Verdict
    test: str | None = None  # that caught it, or that ran when the time was up
    names_rule: bool = False
    why: str = ""
    seconds: float = 0.0


@dataclass
class Outcome:
    """What one run of tests came to."""

    ready: bool = False
    failed: dict[str, str] = field(default_factory=dict[str, str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    running: str | None = None
    broken_off: str | None = None
    output: str = ""


# --- what there is --------------------------------------------------------------------------------


@cache
def mutants() -> tuple[Mutant, ...]:
    """All mutants, in the order of the rules."""
    found: list[Mutant] = []
    for path in sorted(MUTANTS.glob("*.toml")):
        for rule, entries in tomllib.loads(path.read_text("utf-8")).items():
            found += [Mutant(f"{rule}.{number}", rule, **entry) for number, entry in enumerate(entries, 1)]
    return tuple(sorted(found, key=lambda mutant: (mutant.rule[0], *map(int, mutant.id[1:].split(".")))))


def selected(wanted: Sequence[str]) -> list[Mutant]:
    """Those of these rules or with these ids; all, if none is named."""
    strangers = set(wanted) - {name for mutant in mutants() for name in (mutant.id, mutant.rule)}
    if strangers:
        raise SystemExit(f"there is no mutant of {', '.join(sorted(strangers))}; see --list")
    return [mutant for mutant in mutants() if not wanted or mutant.id in wanted or mutant.rule in wanted]


@cache
def tests_by_rule() -> Mapping[str, tuple[str, ...]]:
    """For each rule the tests whose name or docstring names it: those whose name begins with it first."""
    found: dict[str, list[tuple[bool, str]]] = {}
    for folder in TESTS:
        for path in sorted((TREE / folder).glob("test_*.py")):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                    test = f"{path.relative_to(TREE).as_posix()}::{node.name}"
                    text = node.name.upper().replace("_", " ") + " " + (ast.get_docstring(node) or "")
                    for rule in set(re.findall(r"\b[KMP]\d+\b", text)):
                        found.setdefault(rule, []).append((not node.name.startswith(f"test_{rule.lower()}_"), test))
    return {rule: tuple(test for _, test in sorted(entries)) for rule, entries in found.items()}


# --- running tests ----------------------------------------------------------------------------------

_running: set[subprocess.Popen[str]] = set()


@contextmanager
def copied(mutant: Mutant | None) -> Generator[Path]:
    """A copy of src/ with the break in it."""
    with tempfile.TemporaryDirectory(prefix="perdure-mutant-") as folder:
        source = Path(folder, "src")
        shutil.copytree(TREE / "src" / PACKAGE, source / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            broken = mutant.applied(source)
            (source / PACKAGE / mutant.file).write_text(broken, "utf-8")
        yield source


def run_tests(
    source: Path, tests: Sequence[str], limit: float, *, left_out: Iterable[str] = (), **how: bool
) -> Outcome:
    """Run tests with this copy of the package imported. `all=True`: beyond the first that fails."""
    log = source.parent / "log"
    log.write_text("")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-p", "scripts.mutant_probe", *([] if how.get("all") else ["-x"])]
    command += [f"--deselect={test}" for test in left_out]
    settings = {**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    settings |= {"PERDURE_MUTANT_SOURCE": str(source), "PERDURE_MUTANT_LOG": str(log)}
    process = subprocess.Popen(
        [*command, *tests],
        cwd=TREE,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    _running.add(process)
    broken_off: str | None = None
    try:
        output, _ = process.communicate(timeout=limit)
        if process.returncode not in (0, 1):
            broken_off = f"pytest ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        broken_off = f"time limit of {limit:.0f} s"
        _stop(process)
        output, _ = process.communicate()
    finally:
        _running.discard(process)
    return _outcome(log.read_text("utf-8"), broken_off, output)


def _outcome(log: str, broken_off: str | None, output: str) -> Outcome:
    outcome = Outcome(broken_off=broken_off, output=output)
    for line in log.splitlines():
        event = json.loads(line)
        test = str(event.get("test", "")).partition("[")[0]
        match event["event"]:
            case "ready":
                outcome.ready = True
            case "started":
                outcome.running = test
            case "not collected":
                outcome.ready = False
            case kind:
                outcome.seconds[test] = outcome.seconds.get(test, 0.0) + event["seconds"]
                if kind == "failed":
                    outcome.failed.setdefault(test, event["error"])
    return outcome


def _stop(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)  # with what the tests have started
    except (AttributeError, ProcessLookupError, PermissionError):
        process.kill()


# --- one mutant ---------------------------------------------------------------------------------------


@dataclass
class Yardstick:
    """What the tests come to without any break: how long each takes, and those that cannot tell anything."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    failing: dict[str, str] = field(default_factory=dict[str, str])

    def measure(self, tests: Sequence[str]) -> None:
        """Run them on the package as it is. One that fails is run again by itself, for the machine may be busy."""
        with copied(None) as source:
            outcome = run_tests(source, tests, 3600, all=True)
            if not outcome.ready or outcome.broken_off:
                raise SystemExit(f"the tests do not run without any break:\n{outcome.output[-3000:]}")
            self.seconds |= outcome.seconds
            for test, error in outcome.failed.items():
                if run_tests(source, [test], 3600).failed:
                    self.failing[test] = error

    def limit(self, tests: Iterable[str]) -> float:
        """How long these may take with a break."""
        return LIMIT_SECONDS_MIN + LIMIT_FACTOR * sum(self.seconds.get(test, 0.0) for test in tests)


def examine(mutant: Mutant, yardstick: Yardstick, *, everything: bool) -> Result:
    """Run the tests of its rule, or all the others, against one mutant."""
    began = time.monotonic()
    of_its_rule = tests_by_rule().get(mutant.rule, ())
    timed = {test for rule in TIMED for test in tests_by_rule().get(rule, ()) if f"::test_{rule.lower()}_" in test}
    left_out = set(yardstick.failing)
    if mutant.rule not in TIMED:
        left_out |= timed
    if everything:
        left_out |= set(of_its_rule)
        tests: Sequence[str] = [folder for folder in TESTS if (TREE / folder).is_dir()]
        limit = yardstick.limit(set(yardstick.seconds) - left_out)
    else:
        # The names first, the quick ones before the slow.
        tests = [test for test in of_its_rule if test not in left_out]
        named = f"::test_{mutant.rule.lower()}_"
        tests.sort(key=lambda test: (named not in test, yardstick.seconds.get(test, 0.0)))
        limit = yardstick.limit(tests)
    verdict = Result(mutant.id, mutant.rule, mutant.breaks, "survived", names_rule=not everything)
    try:
        with copied(mutant) as source:
            verdict = _try(verdict, source, tests, limit, left_out)
    except BadMutant as error:
        verdict = replace(verdict, verdict="bad", why=str(error))
    return replace(verdict, seconds=time.monotonic() - began)


def _try(verdict: Result, source: Path, tests: Sequence[str], limit: float, left_out: set[str]) -> Result:
    for _ in range(TRIES_MAX):
        if not tests:
            break
        outcome = run_tests(source, tests, limit, left_out=left_out)
        if not outcome.ready:
            return replace(verdict, verdict="bad", why=_last_lines(outcome.output))
        if not outcome.failed:
            if outcome.broken_off is None:
                break
            return replace(verdict, verdict="caught", test=outcome.running, why=outcome.broken_off)
        test, error = next(iter(outcome.failed.items()))
        again = run_tests(source, [test], limit)
        if again.failed or again.broken_off:
            return replace(verdict, verdict="caught", test=test, why=error)
        left_out = {*left_out, test}  # luck is no proof
    return verdict


def _last_lines(output: str) -> str:
    return " | ".join(output.strip().splitlines()[-4:])


# --- all of them --------------------------------------------------------------------------------------


def campaign(chosen: Sequence[Mutant], jobs: int, tell: Callable[[str], object]) -> tuple[list[Result], Yardstick]:
    """Every mutant against the tests of its rule, then those that are left against all tests."""
    yardstick = Yardstick()
    results: dict[str, Result] = {}
    for everything in (False, True):
        left = [mutant for mutant in chosen if mutant.id not in results or results[mutant.id].verdict == "survived"]
        rules = {mutant.rule for mutant in left}
        if everything:
            tests = [folder for folder in TESTS if (TREE / folder).is_dir()]
        else:
            tests = sorted({test for rule in rules for test in tests_by_rule().get(rule, ())})
        if not left or not tests:
            continue
        kind = "all tests" if everything else f"the {len(tests)} tests that name their rules"
        tell(f"{len(left)} mutants against {kind}; first without any break …")
        yardstick.measure(tests)
        with ThreadPoolExecutor(jobs) as pool:
            try:
                pending = [pool.submit(examine, mutant, yardstick, everything=everything) for mutant in left]
                for number, one in enumerate(as_completed(pending), 1):
                    result = one.result()
                    results[result.mutant] = result
                    tell(f"[{number}/{len(left)}] {_line(result)}")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(_running):
                    _stop(process)
                raise
    return [results.get(one.id, Result(one.id, one.rule, one.breaks, "survived")) for one in chosen], yardstick


def _line(result: Result) -> str:
    test = (result.test or "").rpartition("/")[2]
    whose = "" if result.verdict != "caught" or result.names_rule else " (of another rule)"
    how = f"{test}{whose}" if result.verdict == "caught" else result.why
    if result.verdict == "caught" and result.why.startswith(("time limit", "pytest ended")):
        how += f" [{result.why}]"
    return f"{result.mutant:<6} {result.verdict:<8} {result.seconds:>6.1f} s  {how}".rstrip()


def _table(results: Sequence[Result], yardstick: Yardstick, seconds: float) -> list[str]:
    lines = ["", *map(_line, results), ""]
    lines += [f"{one.mutant} {one.verdict}: {one.breaks}" for one in results if one.verdict != "caught"]
    lines += [f"fails without any break: {test}: {error}" for test, error in yardstick.failing.items()]
    count = {verdict: sum(one.verdict == verdict for one in results) for verdict in ("caught", "survived", "bad")}
    own = sum(one.verdict == "caught" and one.names_rule for one in results)
    lines.append(
        f"{len(results)} mutants in {seconds:.0f} s: {count['caught']} caught ({own} by a test that names the rule), "
        f"{count['survived']} survived, {count['bad']} bad"
    )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make mutants", description="Break the kernel; every break must be noticed.")
    parser.add_argument("which", nargs="*", metavar="RULE", help="K4, or a single mutant: K4.2; all, if none is named")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--json", action="store_true", help="the results as JSON; progress goes to standard error")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"how many at a time ({JOBS})")
    options = parser.parse_args(arguments)
    chosen = selected(options.which)
    if options.list:
        for mutant in chosen:
            print(json.dumps(asdict(mutant)) if options.json else f"{mutant.id:<6} {mutant.file:<24} {mutant.breaks}")
        return 0
    began = time.monotonic()
    lock = threading.Lock()

    def tell(line: str) -> None:
        with lock:
            print(line, file=sys.stderr if options.json else sys.stdout, flush=True)

    results, yardstick = campaign(chosen, max(1, options.jobs), tell)
    if options.json:
        report: dict[str, Any] = {"mutants": [asdict(one) for one in results], "failing": yardstick.failing}
        print(json.dumps(report, indent=2))
    else:
        print("\n".join(_table(results, yardstick, time.monotonic() - began)))
    return int(bool(yardstick.failing) or any(one.verdict != "caught" for one in results))


if __name__ == "__main__":
    sys.exit(main())
