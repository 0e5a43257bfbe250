"""Who may ask: loopback by default, a token for every other address, and only under the server's own names."""

import hashlib
import hmac
import ipaddress
from collections.abc import Sequence
from http.cookies import SimpleCookie
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from braid.errors import SettingsError
from serving_layer.http.problems import problem

COOKIE = "braid_token"
# Probes ask without a token: they learn whether the server lives, and nothing else.
OPEN = ("/health", "/ready")
HEADERS = {
    b"content-security-policy": b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_token_beyond_loopback(host: str, token: str) -> None:
    if not is_loopback(host) and not token:
        raise SettingsError(
            f"BRAID_SERVE_HOST={host} lets other machines ask, and there is no token: set BRAID_SERVE_TOKEN to a long "
            "random text that they send as 'Authorization: Bearer …', or keep to 127.0.0.1."
        )


class Access:
    """The first that sees a request. Compares tokens in constant time, and Host against DNS rebinding."""

    def __init__(self, app: ASGIApp, token: str, names: Sequence[str] | None) -> None:
        self._app, self._token, self._names = app, token.encode(), names
        # The browser keeps what only this server can check, and not the token itself.
        self._cookie = hashlib.sha256(b"braid cookie " + self._token).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        by_address = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
        if self._names is not None and _host(headers.get(b"host", "")) not in self._names:
            answer: ASGIApp = problem(421, f"Host {headers.get(b'host', '')!r} is not a name of this server.")
        elif self._token and scope["path"] not in OPEN and not self._knows(headers, by_address):
            answer = problem(401, "send the server's token as 'Authorization: Bearer …'.", "Authorization")
        else:
            answer = self._app
        cookie = self._token and scope["path"] == "/" and self._is_token(by_address)
        await answer(scope, receive, with_headers(send, self._set_cookie() if cookie else None))

    def _knows(self, headers: dict[bytes, str], by_address: str) -> bool:
        scheme, _, given = headers.get(b"authorization", "").partition(" ")
        jar = SimpleCookie(headers.get(b"cookie", ""))
        kept = jar[COOKIE].value if COOKIE in jar else ""
        # Every one is compared: how long it takes tells nothing.
        verdicts = [
            self._is_token(each) for each in (given if scheme.lower() == "bearer" else "", by_address)
        ]
        verdicts.append(hmac.compare_digest(kept.encode("utf-8", "surrogateescape"), self._cookie.encode()))
        return any(verdicts)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)

    def _set_cookie(self) -> bytes:
        """A page that was opened with the token in its address asks with this from there on."""
        return f"{COOKIE}={self._cookie}; Path=/; HttpOnly; SameSite=Strict".encode()


def with_headers(send: Send, cookie: bytes | None = None) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"], *((name, value) for name, value in HEADERS.items() if name not in present)
            ]  # fmt: skip
            if cookie is not None:
                message["headers"].append((b"set-cookie", cookie))
        await send(message)

    return sending


def _host(header: str) -> str:
    """Without the port; an IPv6 address is in brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()
