"""Who may read the page, what may a browser do with it, and what is noted of that?

Only this machine may, unless a token is given: then the token opens the page from elsewhere, once in the address, and
from then on by a cookie that holds a digest of it. Names of the host that are not this machine's are refused, so that
no other site can have its own name lead here. The page itself may load and reach nothing but this server.

The log has one JSON object per line: when, what, and a few fields. Addresses are logged without what follows the
question mark, where a token may be.
"""

from __future__ import annotations

import hmac
import json
from datetime import UTC, datetime
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from threading import Lock
from time import perf_counter
from typing import IO, Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fogline.errors import FoglineError


class LineLog:
    """Lines into a file; None: nowhere."""

    def __init__(self, file: IO[str] | None) -> None:
        self.file, self.lock = file, Lock()

    def write(self, event: str, **fields: Any) -> None:
        """One line."""
        if self.file is None:
            return
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **fields})
        with self.lock:
            self.file.write(f"{line}\n")
            self.file.flush()


class RequestLog:
    """Logs each request when it has been answered."""

    def __init__(self, app: ASGIApp, log: LineLog) -> None:
        self.app, self.log = app, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self.log.file is None:
            await self.app(scope, receive, send)
            return
        began, status = perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            ms = round((perf_counter() - began) * 1e3, 1)
            peer = scope["client"][0] if scope.get("client") else None
            self.log.write("request", method=scope["method"], path=scope["path"], status=status, ms=ms, client=peer)


HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
COOKIE, TOKEN = "fogline_page", "token"
HEALTHZ = "/healthz"  # whether the server is there
SHORTEST = 16  # characters of a token


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_access(host: str, token: str | None) -> None:
    """Other machines reach the page only with a token that is worth the name."""
    if token is not None and len(token) < SHORTEST:
        raise FoglineError(
            f"the token has {len(token)} characters, and may be guessed; use {SHORTEST} or more, such as the output of "
            "`openssl rand -hex 16`."
        )
    if token is None and not is_loopback(host):
        raise FoglineError(
            f"with --host {host} other machines reach the page, which shows all that the output holds; give it a "
            "token: put one into a file (`openssl rand -hex 16 > token`) and add --token-file token, or set "
            "FOGLINE_TOKEN."
        )


class Guard:
    """Lets requests pass, or answers them; and adds headers to what is answered."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app, self.token = app, token
        self.digest = None if token is None else hmac.new(token.encode(), b"fogline page", "sha256").hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._refused(scope)
        await (self.app if refused is None else refused)(scope, receive, sending)

    def _refused(self, scope: Scope) -> Response | None:
        """What is answered instead; None: nothing is wrong."""
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this page is only read\n", 405, {"Allow": "GET, HEAD"})
        if scope["path"] == HEALTHZ:  # shows nothing: who watches the server needs no secret
            return None
        if self.token is None or self.digest is None:
            known = is_loopback(_name(headers.get("host", "")))
            return None if known else PlainTextResponse("this name does not stand for this machine\n", 421)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for name, value in query if name == TOKEN), None)
        if given is not None and _same(given, self.token):
            return self._welcome(scope, [(name, value) for name, value in query if name != TOKEN])
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _same(_cookie(headers), self.digest) or _same(bearer, self.token):
            return None
        return PlainTextResponse("the page needs its token: add ?token=… to the address\n", 401)

    def _welcome(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """The same address without the token, which stays out of what browsers remember."""
        path = "/" + scope["path"].lstrip("/")
        answer = RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), 303)
        assert self.digest is not None
        answer.set_cookie(COOKIE, self.digest, httponly=True, samesite="strict")
        return answer


def _name(host: str) -> str:
    """The name in a Host header, without the port.

    >>> _name("localhost:80"), _name("[::1]:80"), _name("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
