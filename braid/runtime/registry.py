"""Schema registries that definitions know by a name: where each is, and who we are there, from the environment."""

from urllib.parse import SplitResult, unquote, urlsplit

from braid.errors import SettingsError
from braid.runtime.settings import secret, variable_of

KIND = "registry"


def address_of(registry: str) -> str:
    """Where the registry is, without who we are there: this stands in plans, which people look at."""
    parts = _parts(registry)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path.rstrip('/')}"


def login_of(registry: str) -> str | None:
    """Who we are there, "user:password", where it asks for it."""
    parts = _parts(registry)
    return None if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"


def _parts(registry: str) -> SplitResult:
    parts = urlsplit(secret(KIND, registry))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            f"{variable_of(KIND, registry)} is not the address of a schema registry: write it as "
            "'http://USER:PASSWORD@HOST:8081', USER and PASSWORD only where it asks for them."
        )
    return parts
