"""Views as documents and back: what was deployed can be read again without the file that defined it."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from typing import Any

from braid.define.derived.join import JoinedSource
from braid.define.derived.process import ProcessedSource
from braid.define.lookup import Lookup
from braid.define.names import FrozenMap
from braid.define.source import Source
from braid.define.view import View
from braid.define.windows import AllTime, Fixed, Session
from braid.errors import BraidError, DefinitionError
from braid.measures.aggregates import Count, Max, Mean, Min, Sum
from braid.measures.distinct import ApproxDistinct
from braid.measures.histogram import Quantile
from braid.measures.moments import StdDev

# A document names its classes, and only these are built: no name in a document is ever imported.
_CLASSES: Mapping[str, type[Any]] = {
    known.__name__: known
    for known in (
        View, Source, JoinedSource, ProcessedSource, Lookup, Fixed, Session, AllTime,
        Count, Sum, Mean, Min, Max, StdDev, ApproxDistinct, Quantile,
    )
}  # fmt: skip
# No field can have this name, because Python itself reserves it.
_KIND = "is"
_MAP = "map"
_LENGTH = "timedelta"


class _Unknown(Exception):
    """Something that a document has and this Braid does not."""


def encode(view: View) -> dict[str, Any]:
    """The view as plain data that JSON can hold, with the version of Braid that wrote it."""
    return {"braid": braid_version(), "view": _encoded(view)}


def decode(document: object) -> View:
    """The view that was encoded, built and checked as its definition was."""
    if not isinstance(document, dict) or not isinstance(document.get("view"), dict):
        raise BraidError(
            f"this is not the document of a view: {str(document)[:80]!r}. Restore it from a backup, or deploy the "
            "view again with `braid apply`."
        )
    name, written = document["view"].get("name"), document.get("braid", "?")
    what = f"the stored definition of view {name!r}, written by Braid {written},"
    try:
        view = _decoded(document["view"])
    except _Unknown as unknown:
        raise BraidError(
            f"{what} has {unknown}, which Braid {braid_version()} does not know: use Braid {written} or a newer one."
        ) from None
    except DefinitionError as error:
        raise BraidError(
            f"{what} is refused by Braid {braid_version()}: {error} Use Braid {written} until the view is replaced."
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BraidError(f"{what} is damaged ({error}): restore the document from a backup.") from None
    if not isinstance(view, View):
        raise BraidError(f"{what} is a {type(view).__name__} and not a View. Restore it from a backup.")
    return view


@cache
def braid_version() -> str:
    return version("braid")


def _encoded(value: object) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, timedelta):
        return {_KIND: _LENGTH, "microseconds": value // timedelta.resolution}
    if isinstance(value, FrozenMap):
        # Pairs, because the order of derived columns means something and not every JSON tool keeps that of keys.
        return {_KIND: _MAP, "items": [[key, _encoded(item)] for key, item in value.items()]}
    kind = type(value).__name__
    if _CLASSES.get(kind) is not type(value):
        raise BraidError(
            f"{value!r} cannot be stored: {kind} is not a part that Braid's own definitions have. "
            f"Use one of {', '.join(_CLASSES)}."
        )
    return {_KIND: kind} | {
        field.name: _encoded(getattr(value, field.name)) for field in _stored(_CLASSES[kind])
    }


def _stored(kind: type[Any]) -> "list[Field[Any]]":
    """What two values are compared by. The rest is policy: it is taken from the definitions of today."""
    return [field for field in fields(kind) if field.compare]


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(item) for item in value)
    if not isinstance(value, dict):
        return value
    parts = dict(value)
    kind = parts.pop(_KIND, None)
    if kind == _LENGTH:
        return timedelta(microseconds=parts["microseconds"])
    if kind == _MAP:
        return FrozenMap((key, _decoded(item)) for key, item in parts["items"])
    return _built(kind, {name: _decoded(part) for name, part in parts.items()})


def _built(kind: object, parts: dict[str, Any]) -> Any:
    if not isinstance(kind, str) or kind not in _CLASSES:
        raise _Unknown(f"a {kind!r}")
    known = {field.name: field for field in _stored(_CLASSES[kind])}
    for name in parts:
        if name not in known:
            raise _Unknown(f"a field {name!r} of {kind}")
    for name, field in known.items():
        # An older Braid did not write a field that came later: its default is what that Braid did.
        if name not in parts and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{kind} has no {name!r}")
    return _CLASSES[kind](**parts)
