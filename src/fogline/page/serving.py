"""How is the page served, in this process or beside a run?

`serve` serves until Ctrl-C. `beside` starts a process of its own for as long as a run lasts: it takes nothing from the
run, hears nothing of a Ctrl-C that the run is to finish its batch by, and ends when the run does, however that ends,
because the pipe between them closes.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import IO, Any

from fogline.errors import FoglineError
from fogline.files.listing import absolute, is_local
from fogline.sinks.places import needs

PORT = 8642  # unless it is taken; then any
HOST = "127.0.0.1"
TOKEN = "FOGLINE_TOKEN"  # the variable of the environment
_SOCKET = "FOGLINE_PAGE_SOCKET"


def serve(
    output: str,
    host: str = HOST,
    port: int | None = None,
    token: str | None = None,
    *,
    log: IO[str] | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the page of an output until Ctrl-C or SIGTERM; `ready` is called with its address."""
    check(output, host, token)
    listening = listen(host, port)
    ready(address_of(listening, host))
    run(output, listening, token, log)


def check(output: str, host: str, token: str | None) -> None:
    """What can be known to be wrong before anything is started."""
    for package in ("starlette", "uvicorn"):
        needs(package, "page", "the page")
    from fogline.page.security import check_access

    check_access(host, token)
    if not is_local(output):
        raise FoglineError(f"{output!r} does not lie on this machine; the page reads folders of this machine.")


def listen(host: str, port: int | None) -> socket.socket:
    """A socket that waits for browsers; None: the usual port, or any other where that is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for chosen in (PORT, 0) if port is None else (port,):
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, chosen))
            made.listen(512)
            return made
        except (OSError, OverflowError) as error:
            made.close()
            if port is not None or chosen == 0:
                why = getattr(error, "strerror", None) or str(error)
                raise FoglineError(
                    f"the page cannot listen at {host} port {chosen}: {why}. Choose another with --port; 0 is any free "
                    "one."
                ) from None
    raise AssertionError("a port was tried")


def address_of(listening: socket.socket, host: str) -> str:
    """What to type into a browser."""
    shown = f"[{host}]" if ":" in host else socket.gethostname() if host in ("0.0.0.0", "") else host
    return f"http://{shown}:{listening.getsockname()[1]}/"


def run(output: str, listening: socket.socket, token: str | None, log: IO[str] | None, parent: Any = None) -> None:
    """Serve on a socket until a signal comes, or until the pipe to the parent closes."""
    import pyarrow as pa
    import uvicorn

    from fogline.page.app import page_of
    from fogline.page.security import LineLog

    pa.set_memory_pool(pa.system_memory_pool())  # gives back what a large batch needed
    gc.freeze()  # what was imported stays, and need not be looked through again and again
    pa.set_cpu_count(1)  # one thread reads for all, and the run beside it needs the others
    lines = LineLog(log)
    page = page_of(absolute(output), token, lines)

    class Server(uvicorn.Server):
        """Lets viewers go before it waits for them."""

        def handle_exit(self, sig: int, frame: Any) -> None:
            page.hub.stop()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        page.app, log_config=None, access_log=False, lifespan="on", ws="none", timeout_graceful_shutdown=2,
        server_header=False,
    )  # fmt: skip
    server = Server(config)
    if parent is not None:
        Thread(target=_end_with, args=(parent, server), daemon=True).start()
    lines.write("start", output=output, port=listening.getsockname()[1], guarded=token is not None)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn raises the signal again when all is done
        pass
    finally:
        lines.write("stop")


def _end_with(parent: Any, server: Any) -> None:
    parent.read()  # ends when the other process does
    server.handle_exit(signal.SIGTERM, None)


@contextmanager
def beside(output: str, host: str = HOST, port: int | None = None, token: str | None = None) -> Iterator[str]:
    """The page of an output in a process of its own, for a while; its address."""
    check(output, host, token)
    listening = listen(host, port)
    environment = {name: value for name, value in os.environ.items() if name != TOKEN}
    environment |= {_SOCKET: str(listening.fileno()), **({} if token is None else {TOKEN: token})}
    with listening:
        process = subprocess.Popen(
            [sys.executable, "-m", "fogline.page", absolute(output)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            pass_fds=[listening.fileno()], env=environment, start_new_session=True,
        )  # fmt: skip
        address = address_of(listening, host)
    try:
        yield address
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def as_child(output: str) -> None:
    """The page beside a run: what `beside` starts."""
    listening = socket.socket(fileno=int(os.environ[_SOCKET]))
    run(output, listening, os.environ.get(TOKEN) or None, None, sys.stdin)
