"""Loading: the user's module, imported by name or by path, and the workflows and activities in it.

Used by worker, dev and rehearsal.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from perdure.cli.mistakes import Wrong

if TYPE_CHECKING:
    from perdure.define.registry import Registry

HOW = "MODULE is package.module or path/to/file.py, either with `:name` of a list in it"


class NotImported(Wrong):
    """The module is there, and importing it failed. `files` are those that mending it would change."""

    def __init__(self, message: str, hint: str, files: tuple[str, ...]) -> None:
        super().__init__(message, hint)
        self.files = files


@dataclass(frozen=True)
class Loaded:
    """What a module brings."""

    place: str  # as the user gave it
    module: str
    workflows: tuple[Any, ...]
    activities: tuple[Any, ...]
    pipelines: tuple[Any, ...] = ()

    @property
    def workflow_names(self) -> list[str]:
        """The names under which runs are started."""
        from perdure.define.workflow import definition_of

        return sorted(definition_of(one).name for one in self.workflows)

    @property
    def activity_names(self) -> list[str]:
        """The names under which workflows call them."""
        return sorted(one.name for one in self.activities)


def load(text: str) -> Loaded:
    """The workflows and activities of `package.module`, `path/to/file.py`, or of a list in either.

    `Wrong` where there is no such module or nothing in it; `NotImported` where importing it fails.
    """
    place, listed = _split(text)
    name = _importable_name(place)
    module = _import(name, place)
    found = list(_of_list(module, listed, text) if listed else vars(module).values())
    workflows, activities = _definitions(found)
    pipelines = _pipelines(found)
    if not workflows and not activities and not pipelines:
        raise Wrong(
            f"{text} holds no workflow and no activity, nor a pipeline",
            "decorate them with @workflow and @activity; stubs, whose body is `...`, do not count",
        )
    return Loaded(text, name, tuple(workflows), tuple(activities), tuple(pipelines))


def registry_of(loaded: Loaded) -> Registry:
    """What is served, by name. `UsageError` for two of one name."""
    from perdure.define.registry import Registry

    return Registry(loaded.workflows, loaded.activities)


def _split(text: str) -> tuple[str, str]:
    place, colon, listed = text.rpartition(":")
    if not colon:
        return text, ""
    if not listed.isidentifier():
        raise Wrong(f"{listed!r} in {text!r} is no name of a list", HOW)
    return place, listed


def _importable_name(place: str) -> str:
    """The name to import it by, from a folder that is put on the path."""
    if not place.endswith(".py") and os.sep not in place:
        if not all(part.isidentifier() for part in place.split(".")):
            raise Wrong(f"{place!r} names no module", HOW)
        _put_on_path(Path.cwd())
        return place
    path = Path(place).resolve()
    if path.is_dir() or not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise Wrong(f"{place} {what}", HOW)
    if path.suffix != ".py":
        raise Wrong(f"{place} is no Python file", HOW)
    parts = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    name = ".".join(parts)
    if not all(part.isidentifier() for part in parts):
        raise Wrong(f"{place} cannot be imported by the name {name!r}", "rename it with letters, digits and _ only")
    _put_on_path(folder)
    return name


def _put_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _import(name: str, place: str) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if (
            isinstance(error, ModuleNotFoundError)
            and error.name is not None
            and f"{name}.".startswith(f"{error.name}.")
        ):
            raise Wrong(f"there is no module {place}", f"{HOW}; it is looked for in {Path.cwd()}") from None
        raise _not_imported(place, error) from error
    if place.endswith(".py") and Path(module.__file__ or "").resolve() != Path(place).resolve():
        raise Wrong(
            f"{place} cannot be imported: the name {name} stands for {module.__file__ or 'a module of Python itself'}",
            "rename the file",
        )
    return module


def _not_imported(place: str, error: BaseException) -> NotImported:
    files, where = _where(error)
    if isinstance(error, SystemExit):
        said = "it ended the program"
        hint = 'put what it runs under `if __name__ == "__main__":`'
    else:
        said = traceback.format_exception_only(error)[-1].strip()
        hint = "mend it there, and try again"
    return NotImported(f"importing {place} failed: {said} ({where or place})", hint, files)


def _where(error: BaseException) -> tuple[tuple[str, ...], str]:
    """The files that the error came through, and its last line as `file:line`."""
    frames = [
        (frame.filename, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and frame.filename not in (__file__, importlib.__file__)
    ]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
    return tuple(file for file, _ in frames), f"{frames[-1][0]}:{frames[-1][1]}" if frames else ""


def _of_list(module: ModuleType, listed: str, text: str) -> Iterable[Any]:
    found = getattr(module, listed, None)
    if not isinstance(found, list | tuple | set | frozenset):
        what = "is not there" if found is None else f"is {type(found).__name__}"
        raise Wrong(f"{listed} of {text} is no list of workflows and activities: it {what}", HOW)
    return list(found)  # type: ignore[reportUnknownArgumentType]


def _definitions(found: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Workflows and activities among them, once each; stubs are for other workers to serve."""
    from perdure.define.activity import Activity
    from perdure.define.workflow import DEFINITION, Workflow

    workflows: dict[int, Any] = {}
    activities: dict[int, Any] = {}
    for one in found:
        if isinstance(one, Workflow) or (isinstance(one, type) and DEFINITION in vars(one)):
            workflows[id(one)] = one  # type: ignore[reportUnknownArgumentType]
        elif isinstance(one, Activity) and not one.is_stub:
            activities[id(one)] = one  # type: ignore[reportUnknownArgumentType]
    return list(workflows.values()), list(activities.values())


def _pipelines(found: Iterable[Any]) -> list[Any]:
    from perdure.pipelines import Pipeline

    return list({id(one): one for one in found if isinstance(one, Pipeline)}.values())
