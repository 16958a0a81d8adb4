"""A real Spark Connect server of this machine, on a free port: `with connect_server(folder) as server`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import fogline
from fogline.errors import FoglineError
from fogline.spark.java import find_java
from fogline.spark.session import tuned

CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
PATIENCE = 120.0  # seconds until it answers
ROOTS = (Path(__file__).parents[3], Path(fogline.__file__).parents[1])  # where `tests` and `fogline` are imported from


class ConnectServer:
    """The server's process; it can be killed and started again, on the same port."""

    def __init__(self, folder: Path, master: str = "local[2]") -> None:
        self.folder, self.master, self.port = folder, master, free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What a session asks for."""
        return f"sc://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = tuned(self.master) | {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.sql.shuffle.partitions": "2",
        }
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        command = [str(submit), "--class", CLASS, "--driver-memory", "2g"]
        command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        paths = os.pathsep.join([*map(str, ROOTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        environment = os.environ | {"JAVA_HOME": str(find_java()), "PYTHONPATH": paths}
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(submit.parents[1])}
        environment.pop("SPARK_CONNECT_MODE_ENABLED", None)
        with (self.folder / "connect.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "spark-internal"],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        end = time.monotonic() + PATIENCE
        while not answers(self.port):
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise RuntimeError(f"the Connect server does not start:\n{(self.folder / 'connect.log').read_text()}")
            time.sleep(0.2)

    def kill(self) -> None:
        """kill -9, with all that it has started."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@contextmanager
def connect_server(folder: Path) -> Iterator[ConnectServer]:
    """A server for as long as the block lasts; skipped with the reason where it cannot be had."""
    jars = Path(pyspark.__file__).parent / "jars"
    if not any(jars.glob("spark-connect_*.jar")):
        pytest.skip("this PySpark holds no Connect server: pip install 'fogline[spark,connect]'")
    pytest.importorskip("grpc_status", reason="pip install 'fogline[connect]'")
    try:
        find_java()
    except FoglineError as error:
        pytest.skip(str(error))
    server = ConnectServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    """Whether anything listens there."""
    with socket.socket() as asked:
        asked.settimeout(1.0)
        return asked.connect_ex(("127.0.0.1", port)) == 0
