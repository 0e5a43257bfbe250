"""Schema registries that definitions know by a name: where each is, and who we are there, from the environment."""

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from braid.errors import SettingsError
from braid.runtime.settings import secret, variable_of

KIND = "registry"
# Spark does not show settings whose names say that they are secret; a registry's client in the JVM looks here.
LOGIN = "spark.braid.registry.secret."


def address_of(registry: str) -> str:
    """Where the registry is, without who we are there: this stands in plans, which people look at."""
    parts = urlsplit(secret(KIND, registry))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            f"{variable_of(KIND, registry)} is not the address of a schema registry: write it as "
            "'http://USER:PASSWORD@HOST:8081', USER and PASSWORD only where it asks for them."
        )
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path.rstrip('/')}"


def logins(environment: Mapping[str, str]) -> dict[str, str]:
    """Who we are at each registry that asks for it, as settings of Spark."""
    family = variable_of(KIND, "")
    found = {}
    for variable in environment:
        parts = urlsplit(environment[variable].strip()) if variable.startswith(family) else None
        if parts is not None and parts.username is not None:
            who = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            found[LOGIN + variable.removeprefix(family).lower()] = who
    return found
