"""How does every viewer hear of every event, and none wait for a slow one?

One thread reads the output; what it reports is put into the queue of each viewer, encoded once. A viewer that does not
keep up loses its queue and is asked to begin anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from threading import Event as Flag
from threading import Thread
from time import perf_counter

import pyarrow as pa

from fogline.page.store import Event, Follower

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
