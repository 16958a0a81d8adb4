"""How is a Spark that another process runs reached, by Spark Connect?

There is no JVM on this side: tables and streams are described here and run there. So what asks the JVM itself, or calls
back into this process after each batch, cannot be had, and states so.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fogline.errors import FoglineError
from fogline.spark.partitions import context_of

SCHEME = "sc://"
PORT = 15002  # where a server listens, unless it is set
PATIENCE = 5.0  # seconds for a first answer; Spark's client asks for ten minutes


def is_remote(master: str) -> bool:
    """Whether this is the address of a Connect server."""
    return master.startswith(SCHEME)


def remote(url: str, name: str, settings: Mapping[str, str]) -> tuple[SparkSession, list[str]]:
    """A session of the server, with those of the settings that a session may have; which it has otherwise."""
    if SparkContext._active_spark_context is not None:
        raise FoglineError(
            f"this process has a Spark session of its own, so it cannot connect to {url!r} as well; stop that "
            "session first (spark.stop()), or connect from another process."
        )
    _must_answer(url)
    try:
        spark = SparkSession.builder.remote(url).appName(name).getOrCreate()
    except ImportError as error:
        raise ImportError(f"Spark Connect needs more packages: pip install 'fogline[connect]' ({error})") from error
    except PySparkException as error:
        raise FoglineError(f"the Spark Connect server {url!r} gives no session: {_first(error)}") from error
    kept = []
    for key, value in settings.items():
        try:
            if spark.conf.isModifiable(key):
                spark.conf.set(key, value)
            elif (there := spark.conf.get(key, None)) != value:
                kept.append(f"{key} is {there or 'not set'} on the server, and stays so: set it where that is started.")
        except PySparkException as error:
            kept.append(f"{key} cannot be {value!r} on the server: {_first(error)}")
    return spark, kept


def must_have_jvm(spark: SparkSession, what: str, instead: str) -> None:
    """Refuse what cannot be had through Spark Connect; `instead` is the way out."""
    if context_of(spark) is None:
        raise FoglineError(f"{what}, which cannot be reached through Spark Connect; {instead}.")


def _must_answer(url: str) -> None:
    """Spark's client would ask a server that is not there for ten minutes."""
    place = urlsplit(url)
    try:
        host, port = place.hostname or "", place.port or PORT
    except ValueError:
        host, port = "", PORT
    if not host:
        raise FoglineError(f"{url!r} names no Spark Connect server; write sc://host:port.")
    try:
        socket.create_connection((host, port), PATIENCE).close()
    except OSError as error:
        raise FoglineError(
            f"no Spark Connect server answers at {host}:{port} ({error.strerror or error}); start one there "
            "(start-connect-server.sh), or name another."
        ) from None


def _first(error: Any) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
