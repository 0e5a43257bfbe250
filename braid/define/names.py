"""How names are checked and suggested, and the mapping that definitions keep their parts in."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from braid.errors import DefinitionError

Value = TypeVar("Value")

_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*")
_MAX_NAME = 100


class FrozenMap(Mapping[str, Value], Generic[Value]):
    """A mapping that can be hashed, so that a definition that holds one is a value."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


def suggest(name: str, options: Iterable[str], what: str) -> str:
    """ "Did you mean 'url'? The columns are: id, url." """
    known = list(options)
    if not known:
        return f"There are no {what}."
    by_lower = {option.lower(): option for option in known}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    hint = f"Did you mean {by_lower[close[0]]!r}? " if close else ""
    return f"{hint}The {what} are: {', '.join(known)}."


def require_identifier(name: object, what: str) -> str:
    """A name that is also a folder, a table and part of a URL: lower-case letters, digits and _."""
    if isinstance(name, str) and _IDENTIFIER.fullmatch(name) and len(name) <= _MAX_NAME:
        return name
    proposal = re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_0123456789")[:_MAX_NAME]
    fix = f", such as {proposal!r}" if proposal and proposal != name else ""
    raise DefinitionError(
        f"{name!r} cannot be the name of a {what}: it names folders and tables, so use at most {_MAX_NAME} "
        f"lower-case letters, digits and '_', beginning with a letter{fix}."
    )


def require_text(value: object, what: str, example: str) -> str:
    """A string with something in it."""
    if isinstance(value, str) and value.strip():
        return value
    raise DefinitionError(f"{what} is {value!r}: write a text that is not empty, such as {example!r}.")


def require_mapping(value: object, what: str, example: str) -> Mapping[str, object]:
    """A mapping with texts as its keys."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    raise DefinitionError(f"{what} is {value!r}: write a mapping from name to value, such as {example}.")


def set_field(value: object, name: str, normal: object) -> None:
    """Stores the normal form of a field while a frozen dataclass is built."""
    object.__setattr__(value, name, normal)


def near_zone(name: str, names: list[str]) -> str:
    """Zones are long: a city alone, or another case, is the usual slip."""
    city = name.replace(" ", "_").lower().rsplit("/", 1)[-1]
    same = [zone for zone in names if zone.lower().rsplit("/", 1)[-1] == city]
    if same:
        return f"Did you mean {same[0]!r}?"
    hint = suggest(name, names, "names")
    found = re.match(r"Did you mean '[^']*'\?", hint)
    return (
        found.group() if found else "Use an IANA name, such as 'Europe/Berlin', 'America/New_York' or 'UTC'."
    )
