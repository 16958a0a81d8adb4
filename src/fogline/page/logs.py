"""What has the server done, as lines that a program reads?

One JSON object per line: when, what, and a few fields. Addresses are logged without what follows the question mark,
where a token may stand.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from threading import Lock
from time import perf_counter
from typing import IO, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


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
