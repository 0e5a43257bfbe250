"""Secrets that a definition knows by a name alone: addresses of databases and of receivers, from the environment."""

import os

from braid.errors import SettingsError
from braid.runtime.settings import PREFIX


def variable_of(kind: str, name: str) -> str:
    """ "dsn", "my-db" -> "BRAID_DSN_MY_DB"."""
    return f"{PREFIX}{kind}_{name}".upper().replace("-", "_")


def secret(kind: str, name: str) -> str:
    """The value behind a name, which is never to be shown; one that is not set is refused."""
    variable = variable_of(kind, name)
    value = os.environ.get(variable, "").strip()
    if value:
        return value
    family = f"{PREFIX}{kind}_".upper()
    known = sorted(each for each in os.environ if each.startswith(family))
    there = f"Set are: {', '.join(known)}." if known else f"No {family}... is set."
    raise SettingsError(f"there is no {kind} {name!r}: set {variable} to its address. {there}")
