"""The whole tree: nothing in it belongs elsewhere, files end as they should, links lead somewhere, the locks agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tree import TREE, files, name_of

# Each spelt so that this file does not find itself.
UNWANTED = {
    "a note to oneself": r"\b(TO[D]O|FIX[M]E|XX[X])\b",
    "a package registry": r"py[p]i\.(org|python)|pythonhoste[d]\.org|registry\.np[m]js|deb\.debia[n]",
    "a path of one machine": r"(?<![\w.~}])/(wor[k]|roo[t]|home/\w+|User[s]/\w+)/",
}


def unwanted(text: str) -> list[str]:
    return [f"{what}: {match[0]}" for what, pattern in UNWANTED.items() for match in re.finditer(pattern, text)]


def test_nothing_in_the_tree_belongs_elsewhere() -> None:
    found = {name_of(path): faults for path in files() if (faults := unwanted(path.read_text("utf-8")))}
    assert found == {}


@pytest.mark.parametrize(
    "pieces",
    [("TO", "DO later"), ("py", "pi.org/simple"), ("cd /wo", "rk/main"), ("'/home", "/me/x'"), (" /ro", "ot/.cache")],
)
def test_what_belongs_elsewhere_is_noticed(pieces: tuple[str, str]) -> None:
    assert len(unwanted("".join(pieces))) == 1


def test_every_file_ends_with_one_newline() -> None:
    texts = {path: path.read_text("utf-8") for path in files()}
    assert [
        name_of(p) for p, text in texts.items() if text and (not text.endswith("\n") or text.endswith("\n\n"))
    ] == []


def anchors(markdown: str) -> set[str]:
    """The anchors that a renderer makes of the headings."""
    titles = re.findall(r"^#+ +(.+?) *$", _prose(markdown), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _prose(markdown: str) -> str:
    return re.sub(r"^(```|~~~).*?^\1", "", markdown, flags=re.MULTILINE | re.DOTALL)


def broken_links(page: Path) -> list[str]:
    """The relative links of a page that lead nowhere."""
    broken: list[str] = []
    for target in re.findall(r"\]\(<?([^)\s>]+)", _prose(page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = page.parent / file if file else page
        if not place.exists() or (anchor and anchor not in anchors(place.read_text("utf-8"))):
            broken.append(target)
    return broken


def test_every_link_in_the_documentation_leads_somewhere() -> None:
    pages = [path for path in files() if path.suffix == ".md"]
    assert {name_of(page): links for page in pages if (links := broken_links(page))} == {}


def test_a_link_that_leads_nowhere_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title\n[1](gone.md) [2](page.md#a-title) [3](#b) [4](https://example.org/x)\n```\n[5](x.md)\n```\n"
    )
    assert broken_links(page) == ["gone.md", "#b"]


def test_the_smaller_lock_holds_the_same_versions_as_the_larger() -> None:
    larger, smaller = (
        set(re.findall(r"^[\w.-]+==\S+", (TREE / f"requirements-{name}.lock").read_text("utf-8"), re.MULTILINE))
        for name in ("dev", "test")
    )
    assert smaller
    assert smaller < larger
