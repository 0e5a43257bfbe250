"""Who may ask: loopback by default, a token for every other address, and only under the server's own names."""

import hmac
import ipaddress
import time
from collections.abc import Sequence
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from braid.errors import SettingsError
from braid.runtime.logging import Logger
from serving_layer.http.problems import problem

COOKIE = "braid_token"
# A browser is asked for the token again after so many seconds.
COOKIE_SECONDS = 12 * 3600
# A page that is opened in a browser cannot send a header: there, and nowhere else, the token may be in the address.
FIRST_PAGES = ("/", "/docs")
SHORTEST_TOKEN = 16
# Probes ask without a token: they learn whether the server lives, and nothing else.
OPEN = ("/health", "/ready")
HEADERS = {
    b"content-security-policy": b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}

log = Logger("serve")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_token(host: str, token: str) -> None:
    """Beyond loopback there must be one, and one that can be guessed is none."""
    if token and len(token) < SHORTEST_TOKEN:
        raise SettingsError(
            f"BRAID_SERVE_TOKEN has {len(token)} characters, which can be guessed: use at least {SHORTEST_TOKEN}, such "
            "as what `openssl rand -hex 32` prints."
        )
    if not is_loopback(host) and not token:
        raise SettingsError(
            f"BRAID_SERVE_HOST={host} lets other machines ask, and there is no token: set BRAID_SERVE_TOKEN to a long "
            "random text that they send as 'Authorization: Bearer …', or keep to 127.0.0.1."
        )


class Access:
    """The first that sees a request. Compares tokens in constant time, and Host against DNS rebinding."""

    def __init__(self, app: ASGIApp, token: str, names: Sequence[str] | None) -> None:
        self._app, self._token, self._names = app, token.encode(), names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        by_address = ""
        if scope["path"] in FIRST_PAGES:
            by_address = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
        if self._names is not None and _host(headers.get(b"host", "")) not in self._names:
            answer: ASGIApp = problem(421, f"Host {headers.get(b'host', '')!r} is not a name of this server.")
        elif self._token and scope["path"] not in OPEN and not self._knows(headers, by_address):
            refusal = problem(401, "send the server's token as 'Authorization: Bearer …'.", "Authorization")
            refusal.headers["WWW-Authenticate"] = 'Bearer realm="braid"'
            answer = refusal
        else:
            answer = self._app
        gives_cookie = self._token and self._is_token(by_address)
        cookie = self._set_cookie(scope["scheme"] == "https") if gives_cookie else None
        await _answered(answer, scope, receive, with_headers(send, cookie))

    def _knows(self, headers: dict[bytes, str], by_address: str) -> bool:
        scheme, _, given = headers.get(b"authorization", "").partition(" ")
        # Every one is compared: how long it takes tells nothing.
        verdicts = [
            self._is_token(each) for each in (given if scheme.lower() == "bearer" else "", by_address)
        ]
        verdicts.append(self._is_cookie(_cookie(headers.get(b"cookie", ""))))
        return any(verdicts)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)

    def _is_cookie(self, given: str) -> bool:
        until = given.partition(".")[0]
        fresh = until.isascii() and until.isdigit() and len(until) < 12 and int(until) > time.time()
        return (
            hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._signed(until).encode())
            and fresh
        )

    def _signed(self, until: str) -> str:
        """The browser keeps what only this server can check, and not the token itself."""
        text = f"braid cookie {until}".encode("utf-8", "surrogateescape")
        return f"{until}.{hmac.new(self._token, text, 'sha256').hexdigest()}"

    def _set_cookie(self, encrypted: bool) -> bytes:
        """A page that was opened with the token in its address asks with this from there on."""
        value = self._signed(str(int(time.time()) + COOKIE_SECONDS))
        secure = "; Secure" if encrypted else ""
        return (
            f"{COOKIE}={value}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Strict{secure}".encode()
        )


async def _answered(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """A defect is answered here, where answers get their headers, and goes on to whoever writes the server's log."""
    has_begun = False

    async def noticing(message: Message) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    try:
        await app(scope, receive, noticing)
    except Exception as error:
        log.error("a question failed", path=scope["path"], error=repr(error))
        if not has_begun:
            said = problem(500, "the server's log says more; the other answers are not affected.")
            await said(scope, receive, send)
        raise


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


def _cookie(header: str) -> str:
    """The value of ours; whatever others have put beside it, however it is written, is passed over."""
    pairs = (part.partition("=") for part in header.split(";"))
    return next((value.strip() for name, _, value in pairs if name.strip() == COOKIE), "")


def _host(header: str) -> str:
    """Without the port; an IPv6 address is in brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()
