"""Loads a user's sources and views from a module or a file; what is wrong there is named with its line."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from braid.define.alerts import Alert
from braid.define.derived.base import with_inputs
from braid.define.names import FrozenMap, suggest
from braid.define.source import Source
from braid.define.view import View
from braid.errors import DefinitionError

Named = TypeVar("Named", Source, View, Alert)
_MODULE_NAME = "braid_definitions"


@dataclass(frozen=True)
class Definitions:
    """All sources, views and alerts of one installation, by name."""

    sources: FrozenMap[Source]
    views: FrozenMap[View]
    alerts: FrozenMap[Alert]

    def source(self, name: str) -> Source:
        return _find(self.sources, name, "source")

    def view(self, name: str) -> View:
        return _find(self.views, name, "view")

    def alert(self, name: str) -> Alert:
        return _find(self.alerts, name, "alert")


class _FormerName(MetaPathFinder):
    """Finds the examples for definitions of before, which say `examples`: that was a package of its own.

    Asked last, so that whoever has a package of that name gets their own.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        present = importlib.util.find_spec(f"braid.{name}") if name == "examples" else None
        if present is None:
            return None
        return importlib.util.spec_from_file_location(
            name, present.origin, submodule_search_locations=present.submodule_search_locations
        )


FORMER_NAME = _FormerName()


def load_definitions(setting: str) -> Definitions:
    """What the setting BRAID_DEFINITIONS names: "braid.examples.weblog", or the path of a .py file."""
    if FORMER_NAME not in sys.meta_path:
        sys.meta_path.append(FORMER_NAME)
    is_file = setting.endswith(".py") or "/" in setting or Path(setting).is_file()
    module = _load_file(Path(setting).expanduser()) if is_file else _load_module(setting)
    return collect(vars(module).values(), setting)


def collect(values: Iterable[Any], origin: str) -> Definitions:
    """The definitions among the values, with the sources and the looked-up views that they need."""
    found = list(values)
    views: dict[str, View] = {}
    sources: dict[str, Source] = {}
    alerts: dict[str, Alert] = {}
    for alert in (value for value in found if isinstance(value, Alert)):
        _add(alerts, alert, "alerts", origin)
    # What stands in the file itself comes first: a view is the same whatever its sinks are.
    for view in [value for value in found if isinstance(value, View)] + [a.view for a in alerts.values()]:
        for needed in _with_looked_up(view):
            _add(views, needed, "views", origin)
    named = [value for value in found if isinstance(value, Source)] + [v.source for v in views.values()]
    for one in named:
        for source in with_inputs([one]):
            _add(sources, source, "sources", origin)
    if not sources:
        raise DefinitionError(
            f"{origin} defines no source and no view: write one as `requests = Source(...)` at the top level of "
            "the file, or set BRAID_DEFINITIONS to another one."
        )
    return Definitions(FrozenMap(sources), FrozenMap(views), FrozenMap(alerts))


def _with_looked_up(view: View) -> Iterator[View]:
    """A view and the views that it looks up, which must be computed too."""
    for lookup in view.enrich:
        if lookup.view is not None:
            yield from _with_looked_up(lookup.view)
    yield view


def _add(known: dict[str, Named], value: Named, what: str, origin: str) -> None:
    if known.setdefault(value.name, value) != value:
        raise DefinitionError(
            f"{origin} has two different {what} with the name {value.name!r}: rename one of them."
        )


def _find(known: FrozenMap[Named], name: str, what: str) -> Named:
    if name in known:
        return known[name]
    raise DefinitionError(f"there is no {what} {name!r}. {suggest(name, known, what + 's')}")


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise DefinitionError(
            f"{path} is not a file, and it should define the sources and views: set BRAID_DEFINITIONS to the path "
            "of a .py file or the name of a module."
        )
    file = path.resolve()
    module = ModuleType(_MODULE_NAME)
    module.__file__ = str(file)
    with _importable(file.parent), _forgetting_neighbours(file.parent), _explained(str(path), str(file)):
        sys.modules[_MODULE_NAME] = module
        # Compiled here: Python's own cache would miss an edit of the same length within the same second.
        exec(compile(file.read_bytes(), str(file), "exec"), vars(module))
    return module


def _load_module(name: str) -> ModuleType:
    with _importable(Path.cwd()):
        spec = _find_module(name)
        if spec is None or spec.origin is None:
            raise DefinitionError(
                f"there is no module {name!r}: set BRAID_DEFINITIONS to a module that can be imported from here, or "
                "to the path of a .py file."
            )
        with _explained(name, spec.origin):
            return importlib.import_module(name)


def _find_module(name: str) -> ModuleSpec | None:
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise DefinitionError(f"{name}: the package that it is in does not load: {reason}") from None


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """A definition may import what lies beside it, as a script may."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@contextmanager
def _forgetting_neighbours(folder: Path) -> Iterator[None]:
    """The next load sees the files as they are then, also those that the definitions import from their folder."""
    before = set(sys.modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if name == _MODULE_NAME or ("." not in name and file and Path(file).parent == folder):
                del sys.modules[name]


@contextmanager
def _explained(shown: str, file: str) -> Iterator[None]:
    """An error in the user's file becomes one sentence with the file and the line."""
    try:
        yield
    except SyntaxError as error:
        where = f"{error.filename or shown}:{error.lineno or 1}"
        raise DefinitionError(
            f"{where}: {error.msg}. Mend the line; the definitions are a Python file."
        ) from None
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        where = f"{shown}:{frames[-1].lineno}" if frames else shown
        kind = "" if isinstance(error, DefinitionError) else f"{type(error).__name__}: "
        raise DefinitionError(f"{where}: {kind}{error}") from None
