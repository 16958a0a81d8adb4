"""What does a browser get? The page itself, what it shows as JSON, events as they come, and metrics.

One thread reads the output for all viewers; what it reports is put into the queue of each viewer, encoded once. A
viewer that does not keep up loses its queue and is asked to begin anew (`Hub`). Files of the page are read once, when
the server starts, and are found by their names alone, so no address leads to any other file. Metrics are in the words
of Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from time import perf_counter
from typing import Any

import pyarrow as pa
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from fogline.errors import FoglineError
from fogline.output.answers import OutputReader
from fogline.page.follower import Event, Follower
from fogline.page.past import EarlierReader, RowName
from fogline.page.security import HEALTHZ, Guard, LineLog, RequestLog
from fogline.page.state import State
from fogline.page.views import Group

PAUSE = 0.25  # seconds between looks at the output
WAITING = 32  # events that wait for a viewer
ALIVE = 15.0  # seconds after which a viewer without events hears that the server is there
_END = Event("end", b"{}")


class Hub:
    """The viewers, and the thread that reads for all of them."""

    def __init__(self, store: Follower, updated: Callable[[float, int], None] = lambda seconds, viewers: None) -> None:
        self.store, self.updated = store, updated
        self.queues: set[asyncio.Queue[Event]] = set()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.ended = Flag()
        self.seconds = 0.0  # that the last update took to read and encode
        self.thread = Thread(target=self._read, name="fogline-page", daemon=True)

    def start(self) -> None:
        """Begin to read; viewers come later."""
        self.loop = asyncio.get_running_loop()
        self.thread.start()

    def stop(self) -> None:
        """No more reading, and viewers may go; from any thread."""
        self.ended.set()
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._publish, [_END])

    def _read(self) -> None:
        assert self.loop is not None
        while not self.ended.is_set():
            began = perf_counter()
            events = self.store.poll()
            if events:
                self.seconds = perf_counter() - began
                self.updated(self.seconds, len(self.queues))
                pa.default_memory_pool().release_unused()  # a large batch does not stay
                if not self.ended.is_set():
                    self.loop.call_soon_threadsafe(self._publish, events)
            self.ended.wait(PAUSE)

    def _publish(self, events: list[Event]) -> None:
        for queue in self.queues:
            for event in events:
                if queue.full():
                    while not queue.empty():
                        queue.get_nowait()
                    queue.put_nowait(Event("reset", b"{}"))
                queue.put_nowait(event)

    async def events(self) -> AsyncIterator[bytes]:
        """What one viewer hears, in the form of server-sent events."""
        queue: asyncio.Queue[Event] = asyncio.Queue(WAITING)
        self.queues.add(queue)
        try:
            yield b"retry: 2000\nevent: hello\ndata: {}\n\n"
            while not self.ended.is_set():
                try:
                    event = await asyncio.wait_for(queue.get(), ALIVE)
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                if event is _END:
                    break
                yield event.frame
        finally:
            self.queues.discard(queue)


TYPE = "text/plain; version=0.0.4; charset=utf-8"
TOTALS = {
    "batches": "batches that the run has finished",
    "rows": "rows that came",
    "incomplete": "rows that came with a gap",
    "rejected": "rows that could not be taken",
    "late": "rows behind the clock of their group",
    "expired": "rows that had expired before they could enter",
}


def written(state: State | None, hub: Hub) -> str:
    """All metrics, as text.

    Counters count from the start of this page on: then they never fall, whatever an output keeps.
    """
    lines = _metric("fogline_page_viewers", "gauge", "browsers that watch the page", {"": len(hub.queues)})
    lines += _metric("fogline_page_update_seconds", "gauge", "what the last update took the page", {"": hub.seconds})
    lines += _metric("fogline_up", "gauge", "whether there is a run to be read", {"": int(state is not None)})
    if state is None or not state.history.points:
        return "\n".join(lines) + "\n"
    totals, last = hub.store.counted, state.history.points[-1]
    for name, help_text in TOTALS.items():
        lines += _metric(f"fogline_{name}_total", "counter", help_text, {"": totals[name]})
    kinds = {f'{{change="{name}"}}': totals[name] for name in ("enter", "leave", "update")}
    lines += _metric("fogline_changes_total", "counter", "changes of the answer", kinds)
    now = {
        "batch": ("number of the last batch", last.batch),
        "batch_seconds": ("what the last batch took", last.seconds / last.batches),
        "batch_rows": ("rows of the last batch", last.rows),
        "live_rows": ("rows that can still matter", last.live),
        "answer_rows": ("rows in the answer", last.answer),
        "waiting_rows": ("rows that wait, because of lateness", last.waiting),
        "held_rows": ("rows that are held, because they run ahead", last.held),
        "alarms": ("groups that are near a limit, or beyond it", state.alarms),
    }
    for name, (help_text, value) in now.items():
        lines += _metric(f"fogline_{name}", "gauge", help_text, {"": value})
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, help_text: str, values: Mapping[str, float]) -> list[str]:
    """The lines of one metric; values by their labels."""
    return [
        f"# HELP {name} {help_text}",
        f"# TYPE {name} {kind}",
        *(f"{name}{k} {_number(v)}" for k, v in values.items()),
    ]


def _number(value: float) -> str:
    """All digits of it.

    >>> _number(12_345_678), _number(0.25)
    ('12345678', '0.25')
    """
    return str(value) if isinstance(value, int) else repr(float(value))


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
    store = Follower(OutputReader(output, Path(output).name))
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
        name = RowName(_whole(request, "query", 0), _group(request), given["id"], given.get("arrived"))
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
        Route(HEALTHZ, alive),
    ]
    middleware = [Middleware(RequestLog, log=lines), Middleware(Guard, token=token)]
    handlers: Any = {FoglineError: _in_words, HTTPException: _in_words}
    app = Starlette(routes=routes, middleware=middleware, lifespan=living, exception_handlers=handlers)
    return ServedPage(app, hub, store)


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _when(request: Request) -> tuple[str | None, Group]:
    """The instant and the group that are asked for."""
    return request.query_params.get("at"), _group(request)


def _group(request: Request) -> Group:
    """The group that is asked for, as JSON: a text or null for each column."""
    given = request.query_params.get("group", "[]")
    with suppress(ValueError):
        found = json.loads(given)
        if isinstance(found, list) and all(each is None or isinstance(each, str) for each in found):
            return tuple(found)
    raise HTTPException(400, f'group is {given!r}; it is a list as JSON, such as ["north", null]')


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
