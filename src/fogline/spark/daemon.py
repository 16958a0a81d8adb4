"""Where do Python workers come from, and how do they end?

Spark forks them from a daemon. This one has imported Fogline before it forks, so that no worker has to: a second and a
hundred megabytes each. Spark finds it by `spark.python.daemon.module`; without that, workers import what they need.

A worker ends when the JVM closes its socket: at `spark.stop()`, when a query stops in the middle of a batch, when a
`limit` has enough rows. PySpark's worker then still writes its goodbye into the closed socket and prints the traceback
of the broken pipe, often half of it, because the daemon's hang-up comes while it prints. Here it just ends. Errors in
what a worker computes go to the JVM through the socket, as ever, and are raised there.
"""

import socket

import pyspark.daemon

import fogline.spark.census
import fogline.spark.fitting
import fogline.spark.imputing
import fogline.spark.pipeline
import fogline.spark.source  # noqa: F401

CLOSED = 1  # an exit code: do not wait for another task
_worker = pyspark.daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """PySpark's worker, that ends without a traceback when the JVM has closed the socket."""
    try:
        return int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return CLOSED


if __name__ == "__main__":
    pyspark.daemon.worker = worker
    pyspark.daemon.manager()
