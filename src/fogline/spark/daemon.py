"""Where do Python workers come from, and how do they end?

Spark forks them from a daemon. This one has imported Fogline, and loaded the compiler of its kernels, before it forks,
so that no worker has to: a second or two and a hundred megabytes each. Spark finds it by `spark.python.daemon.module`;
without that, workers import what they need.

A fork copies one thread and all locks, also those that other threads hold at that moment: a worker that asks for such a
lock waits for ever. So the daemon forks only while it has a single thread, and looks whether that is so. Libraries that
start threads when they are imported are asked not to (`QUIET`), by settings of the session or, in a session that lacks
them, by starting the daemon once more with them. If there are threads still, PySpark's own daemon takes over, in which
each worker imports for itself.

A worker ends when the JVM closes its socket: at `spark.stop()`, when a query stops in the middle of a batch, when a
`limit` has enough rows. PySpark's worker then still writes its goodbye into the closed socket and prints the traceback
of the broken pipe, often half of it, because the daemon's hang-up comes while it prints. Here it just ends. Errors in
what a worker computes go to the JVM through the socket, as ever, and are raised there.

Where something cannot be imported, PySpark's own daemon takes over, too: a worker that runs can report what it lacks
(`spark.preflight`), one that does not start only confuses.
"""

import os
import socket
import sys
from importlib import import_module

PLAIN = "pyspark.daemon"  # takes our place where we cannot be

try:
    import numpy as np
    import pyspark.daemon

    from fogline.kernels.compile import load_compiler, notice
    from fogline.spark.workers import QUIET, socket_folder, threads

    for name in ("fitting", "pipeline", "synthetic"):
        import_module(f"fogline.spark.{name}")  # workers are forked with what they need at hand
except ImportError as error:
    if __name__ != "__main__":
        raise
    print(
        f"Fogline's daemon cannot be started, since this Python lacks something: {error}", file=sys.stderr, flush=True
    )
    os.execv(sys.executable, [sys.executable, "-m", PLAIN, *sys.argv[1:]])

CLOSED = 1  # an exit code: do not wait for another task
SOCKETS = "PYTHON_WORKER_FACTORY_SOCK_DIR"
_worker = pyspark.daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """PySpark's worker, that ends without a traceback when the JVM has closed the socket."""
    try:
        return int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return CLOSED


def serve() -> None:
    """Be the daemon, until Spark closes stdin."""
    load_compiler()
    notice.quiet()
    if len(threads()) > 1:
        _start_with_fewer_threads()
    os.register_at_fork(after_in_child=np.random.seed)  # or all workers would draw the same numbers
    _hide_sockets()
    pyspark.daemon.worker = worker
    pyspark.daemon.manager()


def _start_with_fewer_threads() -> None:
    """Become another program; Spark waits for the first word on stdout, and does not see it."""
    if QUIET.items() <= os.environ.items():
        print(
            f"Fogline's daemon has {len(threads())} threads ({', '.join(threads())}) and cannot be forked safely, so "
            "PySpark's own takes its place: every Python worker takes a second longer to start.",
            file=sys.stderr,
            flush=True,
        )
        os.execv(sys.executable, [sys.executable, "-m", PLAIN, *sys.argv[1:]])
    os.environ |= QUIET
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _hide_sockets() -> None:
    """A worker runs what it gets through its Unix socket, from any process that can connect: only this user's can."""
    given = os.environ.get(SOCKETS)
    if given is not None and os.stat(given).st_mode & 0o077:
        os.environ[SOCKETS] = str(socket_folder())


if __name__ == "__main__":
    serve()
