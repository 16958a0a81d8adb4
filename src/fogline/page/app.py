"""What does a browser get? The page itself, what it shows as JSON, events as they come, and metrics.

Files of the page are read once, when the server starts, and are found by their names alone, so no address leads to any
other file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from fogline.errors import FoglineError
from fogline.flow.folder import LocalFolder
from fogline.page.hub import Hub
from fogline.page.logs import LineLog, RequestLog
from fogline.page.metrics import TYPE, written
from fogline.page.past import EarlierReader, RowName
from fogline.page.security import Guard
from fogline.page.store import Follower

THREADS = 6  # that answer requests; each has memory of its own
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FILES = {
    path.name: (path.read_bytes(), f"{TYPES[path.suffix]}; charset=utf-8")
    for path in sorted((Path(__file__).parent / "static").iterdir())
    if path.suffix in TYPES
}


@dataclass(frozen=True, slots=True)
class ServedPage:
    """The parts of a page that is served."""

    app: Starlette
    hub: Hub
    store: Follower


def page_of(output: str, token: str | None = None, log: LineLog | None = None) -> ServedPage:
    """The page of an output folder of this machine."""
    lines = log or LineLog(None)
    store = Follower(LocalFolder(output), Path(output).name)
    hub = Hub(store, lambda seconds, viewers: lines.write("update", ms=round(seconds * 1e3, 1), viewers=viewers))
    past = EarlierReader(store)

    @asynccontextmanager
    async def living(_: Starlette) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        hub.start()
        yield
        hub.stop()

    def answer(request: Request) -> Response:
        at = request.query_params.get("at")
        return _json(store.answer() if at is None else past.answer(at))

    def changes(request: Request) -> Response:
        return _json(store.changes(_whole(request, "since", -1)))

    def explain(request: Request) -> Response:
        given = request.query_params
        if "id" not in given:
            raise HTTPException(400, "name a row: ?id=…")
        group = tuple(given.getlist("group"))
        name = RowName(_whole(request, "query", 0), group, given["id"], given.get("arrived"))
        if store.state is not None and name.query not in range(len(store.state.queries)):
            raise HTTPException(404, f"there is no query number {name.query}")
        return _json(past.explain(name, given.get("at")))

    def file(request: Request) -> Response:
        content, kind = FILES.get(request.path_params.get("name", "index.html"), (None, ""))
        if content is None:
            raise HTTPException(404, "there is no such file")
        return Response(content, headers={"Content-Type": kind, "Cache-Control": "no-cache"})

    async def events(_: Request) -> Response:
        return StreamingResponse(hub.events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    def metrics(_: Request) -> Response:
        with store.lock:
            return Response(written(store.state, hub), headers={"Content-Type": TYPE})

    async def alive(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    routes = [
        Route("/", file),
        Route("/static/{name}", file),
        Route("/api/about", lambda _: _json(store.about())),
        Route("/api/answer", answer),
        Route("/api/changes", changes),
        Route("/api/health", lambda _: _json(store.health())),
        Route("/api/near", lambda request: _json(past.near(*_when(request)))),
        Route("/api/next", lambda request: _json(past.next(*_when(request)))),
        Route("/api/explain", explain),
        Route("/api/events", events),
        Route("/metrics", metrics),
        Route("/healthz", alive),
    ]
    middleware = [Middleware(RequestLog, log=lines), Middleware(Guard, token=token)]
    handlers: Any = {FoglineError: _in_words, HTTPException: _in_words}
    app = Starlette(routes=routes, middleware=middleware, lifespan=living, exception_handlers=handlers)
    return ServedPage(app, hub, store)


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _when(request: Request) -> tuple[str | None, tuple[str, ...]]:
    """The instant and the group that are asked for."""
    return request.query_params.get("at"), tuple(request.query_params.getlist("group"))


def _whole(request: Request, name: str, usual: int) -> int:
    """A whole number that was asked for."""
    given = request.query_params.get(name, str(usual))
    try:
        return int(given)
    except ValueError:
        raise HTTPException(400, f"{name} is {given!r}, which is not a whole number") from None


async def _in_words(_: Request, error: Exception) -> Response:
    """What went wrong, for the person at the browser."""
    status = error.status_code if isinstance(error, HTTPException) else 409
    return JSONResponse({"error": error.detail if isinstance(error, HTTPException) else str(error)}, status)
