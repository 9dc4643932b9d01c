"""The corpus: the cases of the files beside this one, each a call with one thing wrong in it.

A file holds `[[call]]`s: `call` is what is typed, `error` the type that it raises (`InvalidValue` if it says nothing)
and `says` a part of the message. With `bad` it stands for as many cases as nonsense.toml has of that kind, each put in
the place of BAD (`only` some, or all `except` some); with `each` for one for each text, in the place of the word in
capitals. Any other list of texts is put in the place of its name in capitals.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "corpus"
PLAIN = frozenset({"call", "error", "says", "bad", "only", "except", "each"})
CAPITALS = re.compile(r"\b(BAD|METHOD|CALL)\b")


@dataclass(frozen=True)
class Case:
    """One call that has to be refused. `bad` is evaluated before it, and stands for BAD."""

    name: str
    call: str
    error: str
    says: tuple[str, ...]
    bad: str | None = None


@cache
def read(name: str) -> Any:
    """A file of the corpus."""
    return tomllib.loads((FOLDER / name).read_text("utf-8"))


def cases(file: str) -> list[tuple[str, list[Case]]]:
    """What is called, and the cases of it, in the order of the file."""
    found: dict[str, list[Case]] = {}
    for entry in read(file)["call"]:
        for call in _calls(entry):
            found.setdefault(call, []).extend(_cases(call, entry))
    return list(found.items())


def _calls(entry: Mapping[str, Any]) -> Iterator[str]:
    lists = [name for name in entry if name not in PLAIN]
    assert len(lists) <= 1, entry
    if not lists:
        yield entry["call"]
    for text in entry[lists[0]] if lists else ():
        yield entry["call"].replace(lists[0].upper(), text)


def _cases(call: str, entry: Mapping[str, Any]) -> Iterator[Case]:
    error, says = entry.get("error", "InvalidValue"), entry["says"]
    if "bad" in entry:
        kinds: dict[str, dict[str, str]] = read("nonsense.toml")[entry["bad"]]
        wanted = [name for name in kinds if name in entry.get("only", kinds) and name not in entry.get("except", ())]
        assert wanted, entry
        for name in wanted:
            yield Case(name, call, error, (says, kinds[name]["says"]), kinds[name]["value"])
    elif "each" in entry:
        for text in entry["each"]:
            assert CAPITALS.search(call), entry
            yield Case(text, CAPITALS.sub(lambda _, text=text: text, call), error, (says,))
    else:
        yield Case(call, call, error, (says,))
