"""Secrets that a definition knows by a name alone: addresses of databases and of receivers, from the environment."""

import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

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


def registry_logins(environment: Mapping[str, str]) -> dict[str, str]:
    """Who we are at each schema registry, for Spark: under names that it does not show to who looks at its settings."""
    family = variable_of("registry", "")
    logins = {}
    for variable in environment:
        if variable.startswith(family):
            parts = urlsplit(environment[variable].strip())
            if parts.username is not None:
                who = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
                logins[f"spark.braid.registry.secret.{variable.removeprefix(family).lower()}"] = who
    return logins
